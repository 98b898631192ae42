import { KEY_COLUMNS, type KeyRow, readKeyRow } from './key-row.js'
import { unheld } from './unheld.js'
import { defineStatement, msInterval, type Store } from '../statement.js'

/** Who takes a key over, and under which definition it continues (its own, or one it is upgraded to). */
export interface TakeOver {
  readonly holder: string
  readonly leaseMs: number
  /** A lease that ends later than this from now counts as over. */
  readonly leaseBoundMs: number
  readonly version: number
  readonly definitionHash: string
  readonly recoveryPoint: string
  /** Null leaves it unchanged. */
  readonly stateJson: string | null
  readonly intent: KeyRow['intent']
  readonly effectEpoch: number
}

const takeOverKeyStatement = defineStatement(
  'take_over_key',
  ({ keys }) => `
  WITH target AS (${unheld(keys, '$10', '$11')})
  UPDATE ${keys} AS k
     SET fence = k.fence + 1, holder = $3::uuid, lease_until = clock_timestamp() + ${msInterval('$4')},
         attempts = k.attempts + 1, version = $5::integer, definition_hash = $6, recovery_point = $7,
         state = coalesce($8::json, k.state), intent = $9::json, effect_epoch = $12::integer,
         updated_at = clock_timestamp()
    FROM target WHERE k.id = target.id
  RETURNING ${KEY_COLUMNS}`,
)

/**
 * Grants the key again, provided that nothing read of it has changed. Returns null when it has moved on, is held, or is
 * locked.
 */
export async function takeOverKey(store: Store, read: KeyRow, by: TakeOver): Promise<KeyRow | null> {
  const { rows } = await takeOverKeyStatement(store, [
    read.id,
    read.fence,
    by.holder,
    by.leaseMs,
    by.version,
    by.definitionHash,
    by.recoveryPoint,
    by.stateJson,
    by.intent === null ? null : JSON.stringify(by.intent),
    read.writtenBy,
    by.leaseBoundMs,
    by.effectEpoch,
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}
