import type { Effect } from '../keys/advanced.js'
import type { KeyRow } from '../keys/key-row.js'
import { defineStatement, type Store } from '../statement.js'

const insertLateEffectStatement = defineStatement(
  'insert_late_effect',
  ({ effects }) => `
  INSERT INTO ${effects} (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, reference)
  VALUES ($1::uuid, $2, $3, $4, $5::integer, $6::bigint, $7, $8, $9, $10)`,
)

/** Records an effect that became known after its request had gone on without it. */
export async function insertLateEffect(store: Store, key: KeyRow, effect: Effect): Promise<void> {
  await insertLateEffectStatement(store, [
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
  ])
}
