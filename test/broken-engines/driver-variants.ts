import { openTransaction } from './open-transaction.js'
import type { Variant } from './variant.js'

const TRANSACTION = 'driver/session-transaction.ts'

const SENT_WHATEVER_THE_STATUS = {
  file: TRANSACTION,
  from: `    if (status === 'I') this.#endedEarly = true
    if (this.#endedEarly) return closed()`,
  to: '    return null',
}

/** Engines that are wrong about what is sent on a connection, and in which transaction. */
export const DRIVER_VARIANTS = [
  {
    name: 'rollback-overtakes',
    broken:
      'A ROLLBACK is sent before the queries that were handed over before it, and those are sent nevertheless.',
    endangers: 'Queries of a failed phase are executed outside of any transaction, and stay.',
    replacements: [
      { file: TRANSACTION, from: '    this.#queue.drop(this, closed())\n', to: '' },
      SENT_WHATEVER_THE_STATUS,
      {
        file: 'driver/send-queue.ts',
        from: '      this.#waiting.push(exchange)',
        to: `      if (statements[0]?.config.text === 'ROLLBACK') this.#waiting.unshift(exchange)
      else this.#waiting.push(exchange)`,
      },
    ],
    ride: 'parallel',
    search: { by: 'clean run' },
    foundBy:
      'Both rides are inserted at once, beside something that fails: ROLLBACK overtakes the second, which is committed by ' +
      'itself. The clean run shows it.',
    expected: ['I15'],
  },
  {
    name: 'ended-transaction-unnoticed',
    broken: 'A phase that has ended its own transaction is taken for one that has not.',
    endangers: 'Rows are committed without their recovery point, and again each time that the phase runs.',
    replacements: [
      SENT_WHATEVER_THE_STATUS,
      {
        file: TRANSACTION,
        from: `    if (!this.#commitSent && (status === 'I' || this.#hasEnded([...results.slice(opening), ...executed])))
      this.#endedEarly = true
`,
        to: '    if (this.#commitSent && this.#hasEnded(executed)) this.#endedEarly = true\n',
      },
    ],
    ride: 'ends_itself',
    search: { by: 'clean run' },
    foundBy: 'The ride is in a transaction that moves no recovery point. The clean run shows it.',
    expected: ['I15'],
  },
  {
    name: 'statements-in-anybodys-transaction',
    broken: "A statement that stands alone is sent on a connection that is in somebody else's transaction.",
    endangers: 'What was reported as done is undone when that transaction is.',
    replacements: [
      {
        file: 'driver/session-pool.ts',
        from: "return status === 'T' || status === 'E'",
        to: 'return status === undefined',
      },
      {
        file: 'driver/session.ts',
        from: "return this.#client.transactionStatus === 'I' ? null : this.#client.loseToOthers()",
        to: 'return null',
      },
    ],
    ride: 'at_most_once',
    // It asks for its epoch on a second connection, and the pool may then give that to the request.
    without: ['cache'],
    search: { by: 'faults', faults: [openTransaction], depth: 1 },
    foundBy:
      'Somebody begins a transaction on a connection that a request has given back. The next one reserves its key in it, and ' +
      'the reservation is gone with the connection: the first phase finds no row, and its client is told that it was fenced ' +
      'off, by nobody.',
    expected: ['outcome'],
  },
] as const satisfies readonly Variant[]
