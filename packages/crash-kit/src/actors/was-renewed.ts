import { poll } from './poll.js'
import type { Trial } from './trial.js'

/** Resolves to whether the key's lease is renewed before it runs out, by the database's clock. */
export async function wasRenewed({ environment, scope, key }: Trial): Promise<boolean> {
  const { database } = environment
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
