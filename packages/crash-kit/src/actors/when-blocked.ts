import { poll } from './poll.js'
import type { Trial } from './trial.js'

/** Resolves when PostgreSQL itself reports that a session of the actor waits for a lock. */
export async function whenBlocked({ environment }: Trial, actor: string): Promise<void> {
  await poll(`${actor} to wait for a lock`, async () => {
    const backends = await environment.database.backends(actor)
    return backends.some(({ blockedBy }) => blockedBy.length > 0) ? true : null
  })
}
