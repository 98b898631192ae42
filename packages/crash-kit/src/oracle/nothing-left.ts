import { inspect } from 'node:util'
import type { History, Violation } from '../history.js'

/** I14: whatever happened, connections came back, transactions ended, and every rejection was handled. */
export function nothingLeft({ leftovers }: History): Violation[] {
  const { lostClients, openTransactions, unhandledRejections } = leftovers
  return [
    ...lostClients.map(({ actor, total, idle }) =>
      violation(`${total - idle} of ${total} connections of ${actor} did not come back to their pool.`),
    ),
    ...openTransactions.map(({ actor, query }) =>
      violation(`A session of ${actor} was left in a transaction, after: ${query}`),
    ),
    ...unhandledRejections.map((reason) =>
      violation(
        `A promise was rejected and nobody handled it: ${reason instanceof Error ? String(reason) : inspect(reason)}`,
      ),
    ),
  ]
}

function violation(detail: string): Violation {
  return { rule: 'I14', title: 'after any fault, connections, transactions and promises have ended', detail }
}
