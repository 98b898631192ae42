import type { EffectToErase } from './find-effects-to-erase.js'
import { gone, moment } from '../renamed.js'
import { defineStatement, eachGiven, type Store } from '../statement.js'

const deleteErasedEffectsStatement = defineStatement(
  'delete_erased_effects',
  (tables) => `
  WITH free AS (
    SELECT e.key, e.id FROM ${tables.effects} AS e, ${eachGiven(tables, { key: '$2::text[]', id: '$3::uuid[]' })}
     WHERE e.scope = $1 AND e.key = each.key AND e.id = each.id
       FOR UPDATE OF e SKIP LOCKED
  ), gone AS (
    DELETE FROM ${tables.effects} AS e USING free AS each
     WHERE e.scope = $1 AND e.key = each.key AND e.id = each.id
    RETURNING e.id
  )
  ${gone('$3')}`,
)

const copyErasedEffectStatement = defineStatement(
  'copy_erased_effect',
  ({ effects }) => `
  INSERT INTO ${effects}
    (id, key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, reference, created_at, undone_at)
  VALUES ($1::uuid, $2::uuid, $3, $4, $5, $6::integer, $7::bigint, $8, $9, $10, $11, ${moment('$12')}, ${moment('$13')})`,
)

/** The names that an effect gets in place of its own. */
export interface NewNames {
  readonly scope: string
  readonly key: string
  readonly reference: string | null
}

/**
 * Replaces the names of effects of one scope. The scope says where a row is, so it is deleted and written anew, in one transaction; if
 * somebody else has a row, or has deleted it, nothing happens to any of them.
 */
export async function renameEffects(
  { session, tables }: Store,
  scope: string,
  effects: readonly EffectToErase[],
  nameOf: (effect: EffectToErase) => NewNames,
): Promise<void> {
  const named = [scope, effects.map(({ key }) => key), effects.map(({ id }) => id)]
  const copies = effects.map((effect) => {
    const { id, keyId, pipeline, version, fence, phase, effectName, providerKey, createdUs, undoneUs } =
      effect
    const names = nameOf(effect)
    return copyErasedEffectStatement.bind(tables, [
      id,
      keyId,
      names.scope,
      names.key,
      pipeline,
      version,
      fence,
      phase,
      effectName,
      providerKey,
      names.reference,
      createdUs,
      undoneUs,
    ])
  })
  await session.runTogether([deleteErasedEffectsStatement.bind(tables, named), ...copies])
}
