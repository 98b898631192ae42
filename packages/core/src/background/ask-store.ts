import type { EngineContext } from '../engine/engine-context.js'
import { RECONNECT_TRIES } from '../limits.js'
import { classifyError } from '../run/classify-error.js'
import { tellingRights } from '../storage/schema/missing-right.js'
import type { Store } from '../storage/statement.js'

/** Asks the relay's statements again where the answer was lost: each of them finds what its first try did. */
export async function askStore<T>(
  context: EngineContext,
  statement: (store: Store) => Promise<T>,
): Promise<T> {
  const { sessions, tables } = context
  for (let attempt = 1; ; attempt++) {
    try {
      return await tellingRights(context, () =>
        sessions.with('relay', (session) => statement({ session, tables })),
      )
    } catch (error) {
      // Where the database's default is not READ COMMITTED, two relays that meet are a conflict.
      const mayPass = classifyError(error) === 'conflict'
      if (!mayPass || attempt >= RECONNECT_TRIES) throw error
    }
  }
}
