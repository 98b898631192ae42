import { WRITTEN } from './hold.js'
import { KEY_COLUMNS_WRITTEN, type KeyRow, readKeyRow } from './key-row.js'
import { unheld, unheldValues } from './unheld.js'
import { sealIntent, sealJson } from '../sealed-values.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'

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
  (tables) => `
  WITH target AS (${unheld(tables)})
  UPDATE ${tables.keys} AS k
     SET fence = k.fence + 1, holder = $8::uuid, lease_until = ${NOW} + ${msInterval('$9')},
         attempts = k.attempts + 1, version = $10::integer, definition_hash = $11, recovery_point = $12,
         state = coalesce($13::json, k.state), intent = $14::json, effect_epoch = $15::integer,
         updated_at = ${NOW}, ${WRITTEN}
    FROM target WHERE k.scope = $1 AND k.key = $2 AND k.key = target.key
  RETURNING ${KEY_COLUMNS_WRITTEN}, target.server`,
)

/**
 * Grants the key again, provided that nothing read of it has changed. Returns null when it has moved on, is held, or is
 * locked.
 */
export async function takeOverKey(store: Store, read: KeyRow, by: TakeOver): Promise<KeyRow | null> {
  const { rows } = await takeOverKeyStatement(store, [
    ...unheldValues(read, by.leaseBoundMs),
    by.holder,
    by.leaseMs,
    by.version,
    by.definitionHash,
    by.recoveryPoint,
    by.stateJson === null ? null : sealJson(store.tables, read, 'state', by.stateJson),
    sealIntent(store.tables, read, by.intent),
    by.effectEpoch,
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
