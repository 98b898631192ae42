import type { Bound } from '../../driver/outgoing.js'
import type { KeyRow } from '../keys/key-row.js'
import { defineStatement, NOW, type Store } from '../statement.js'
import type { Tables } from '../tables.js'
import { uuidV7 } from '../../uuid-v7.js'

/** A foreign effect that a settled phase records. */
export interface Effect {
  readonly phase: string
  readonly effectName: string
  readonly providerKey: string
  readonly reference: string | null
}

const insertEffectStatement = defineStatement(
  'insert_effect',
  ({ effects }) => `
  INSERT INTO ${effects}
    (id, key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, reference, created_at)
  VALUES ($1::uuid, $2::uuid, $3, $4, $5, $6::integer, $7::bigint, $8, $9, $10, $11, ${NOW})`,
)

/** Records an effect in the transaction that settles it, before the advance: if that fails, neither is committed. */
export function insertEffect(tables: Tables, key: KeyRow, effect: Effect): Bound {
  return insertEffectStatement.bind(tables, valuesOf(key, effect))
}

/** Records an effect that became known after its request had gone on without it. */
export async function insertLateEffect(store: Store, key: KeyRow, effect: Effect): Promise<void> {
  await insertEffectStatement(store, valuesOf(key, effect))
}

function valuesOf(key: KeyRow, effect: Effect): unknown[] {
  return [
    uuidV7(),
    key.id,
    key.scope,
    key.key,
    key.pipeline,
    key.version,
    key.fence,
    effect.phase,
    effect.effectName,
    effect.providerKey,
    effect.reference,
  ]
}
