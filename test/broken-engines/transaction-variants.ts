import type { Variant } from './variant.js'

const TRANSACTION = 'run/phase-transaction.ts'

/** Engines that are wrong about what commits together, and whether it has. */
export const TRANSACTION_VARIANTS = [
  {
    name: 'advance-in-its-own-transaction',
    broken: "The phase's rows are committed before the recovery point is written.",
    endangers: 'There are rows of a phase that the key does not know of, and they are written again.',
    replacements: [
      {
        file: TRANSACTION,
        from: 'return await commit(run, leg, transaction, returned, statements)',
        to: `await transaction.commit([])
    const another = session.begin(beginStatement(settings))
    return await commit(run, leg, another, returned, statements)`,
      },
    ],
    ride: 'keyed',
    search: { by: 'clean run' },
    foundBy:
      'A ride is committed by a transaction that moves no recovery point: the clean run shows it. A crash ' +
      'at ride_created/commit#1:after leaves it behind, and the recovery writes another.',
    expected: ['I15'],
  },
  {
    name: 'commit-beside-a-failed-advance',
    broken: 'An advance that finds no row does not fail, and the COMMIT that is sent with it is executed.',
    endangers: 'There are rows of a holder whose key was taken over.',
    replacements: [
      {
        file: 'storage/keys/held-or-fail.ts',
        from: `CASE WHEN count(*) = 1 THEN 1 ELSE ('\${FENCED_OFF}, rows: ' || count(*))::integer END`,
        to: 'count(*)',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['freeze'], depth: 1 },
    foundBy:
      'A holder frozen at ride_created/advance_key#1:before until another has taken over: its ride is committed beside that of ' +
      'whoever has the key.',
    expected: ['I15'],
  },
  {
    name: 'unknown-commit-as-failure',
    broken: 'A COMMIT without an answer counts as failed, and the transaction is tried again.',
    endangers: 'A holder goes on from a point that its key has left, and tells its client so.',
    replacements: [
      {
        file: TRANSACTION,
        from: 'const raised = await raiseFenceOf(run, error)',
        to: `if (sentAt > 0) return { type: 'conflict', phase: work.phase.name, error }
  const raised = await raiseFenceOf(run, error)`,
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['lostCommitAck'], depth: 1 },
    foundBy:
      'The answer to the COMMIT of ride_created or charge_created is lost. The second try finds the point ' +
      'gone, and the client is told in_flight, fenced off, though nobody took the key: it waits for a whole ' +
      'lease. Rows and effects stay right, because the advance is conditional on the point.',
    expected: ['outcome'],
  },
  {
    name: 'unknown-commit-as-success',
    broken: 'A COMMIT without an answer counts as done.',
    endangers:
      'The client gets a response that nobody has stored, and calls are made without the phases before them.',
    replacements: [
      {
        file: TRANSACTION,
        from: `if (transaction.mayHaveCommitted)
      return { type: 'commit_unknown', error, declares: leg.advance.declares?.phase ?? null }`,
        to: `if (transaction.mayHaveCommitted) {
      if (returned.type === 'finish')
        return { type: 'finished', response: returned.response, expiresMs: run.nowMs(), committed }
      run.advanced(leg.advance, { nowMs: run.nowMs(), expiresMs: null, declared: null }, sentAt)
      return { type: 'advanced', committed }
    }`,
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['lostCommit'], depth: 1 },
    foundBy:
      'The COMMIT of finished is lost before the server: the client is told completed, and the row runs on ' +
      'without response and job. That of ride_created: the charge is made for a ride that is not there, and ' +
      'its holder is fenced off by nobody.',
    expected: ['outcome'],
  },
  {
    name: 'job-outside-the-transaction',
    broken: "A job is staged on a connection of its own, outside of the phase's transaction.",
    endangers: 'Jobs of a phase that never committed are delivered.',
    replacements: [
      {
        file: 'run/stage-job.ts',
        from: 'staged.push(insertStagedJob(tables, job))',
        to: `await run.engine.sessions.with(phase, (session) =>
        {
        const bound = insertStagedJob(tables, job)
        return session.run(bound.statement, bound.values)
      })`,
      },
    ],
    ride: 'keyed',
    search: { by: 'clean run' },
    foundBy:
      'The job is committed by a transaction that moves no key: the clean run shows it. A crash at ' +
      'finished/finish_key#1:before leaves it behind, and the recovery stages another.',
    expected: ['I13'],
  },
  {
    name: 'broken-client-kept',
    broken: 'A connection that broke is not given back to its pool.',
    endangers: 'The pool runs dry, one lost connection at a time.',
    replacements: [
      {
        file: 'driver/borrowed-client.ts',
        from: 'if (this.#isReturned) return',
        to: 'if (this.#isReturned || this.#lost !== null) return',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['connectionKilled'], depth: 1 },
    foundBy:
      'Any connection that breaks while it is out, such as at ride_created/commit#1:before: the pool counts ' +
      'it as taken for ever.',
    expected: ['I14'],
  },
] as const satisfies readonly Variant[]
