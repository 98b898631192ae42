import { type KeyRow, readKeyRow } from './key-row.js'
import { steered, type Steering, steeringValues } from './steered.js'
import { defineStatement, NOW, statusIs, type Store } from '../statement.js'

const revokeLeaseStatement = defineStatement(
  'revoke_lease',
  steered('revoke', `${statusIs('running')} AND k.lease_until > ${NOW}`, ''),
)

/** Ends the lease of whoever holds the key. Returns null when the key has moved on, or nobody holds it any more. */
export async function revokeLease(store: Store, steering: Steering): Promise<KeyRow | null> {
  const { rows } = await revokeLeaseStatement(store, steeringValues(steering))
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
