import { setTimeout as delay } from 'node:timers/promises'
import { BLOCKED_POLL_MS, SIGNAL_TIMEOUT_MS } from '../limits.js'
import { KitError } from '../kit-error.js'
import type { Scene } from './scene.js'

/** Resolves when a session of the actor waits for a lock, as PostgreSQL itself sees it. */
export async function whenBlocked({ theatre }: Scene, actor: string): Promise<void> {
  await poll(`${actor} to wait for a lock`, async () => {
    const backends = await theatre.database.backends(actor)
    return backends.some(({ blockedBy }) => blockedBy.length > 0) ? true : null
  })
}

/** Whether the key's lease is renewed before it runs out, by the database's clock. */
export async function wasRenewed({ theatre, scope, key }: Scene): Promise<boolean> {
  const { database } = theatre
  const first = (await database.keyRow(scope, key))?.['lease_until']
  return poll('the lease to be renewed, or to run out', async () => {
    const now = (await database.keyRow(scope, key))?.['lease_until']
    if (now !== first) return true
    const { rows } = await database.admin.query<{ over: boolean }>(
      'SELECT $1::timestamptz <= clock_timestamp() AS over',
      [first],
    )
    return rows[0]?.over === true ? false : null
  })
}

async function poll<T>(what: string, look: () => Promise<T | null>): Promise<T> {
  const giveUpAt = performance.now() + SIGNAL_TIMEOUT_MS
  for (;;) {
    const seen = await look()
    if (seen !== null) return seen
    if (performance.now() > giveUpAt)
      throw new KitError('PAWL_KIT_TIMEOUT', `Waited ${SIGNAL_TIMEOUT_MS} ms for ${what}.`)
    await delay(BLOCKED_POLL_MS)
  }
}
