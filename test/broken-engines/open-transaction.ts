import type { Fault } from '@pawl/crash-kit'
import type { PoolClient } from 'pg'

/**
 * Somebody goes on using a connection that was given back, and begins a transaction on it that is still open when the next
 * case begins.
 */
export const openTransaction: Fault = {
  id: 'openTransaction',
  title: "somebody's BEGIN on a connection that was given back",
  appliesTo: ({ step, when }) => when === 'before' && step === 'commit',
  strike({ actor, fired }) {
    actor.pool.once('release', ((_: unknown, client: PoolClient) => {
      fired()
      client.query('BEGIN').catch(() => {})
    }) as never)
  },
}
