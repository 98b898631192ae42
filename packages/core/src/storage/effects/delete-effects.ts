import type { OldEffect } from './find-old-effects.js'
import { defineStatement, eachGiven, type Store } from '../statement.js'

const GIVEN = { scope: '$1::text[]', key: '$2::text[]', id: '$3::uuid[]' }

const IS_THAT_EFFECT = 'e.scope = each.scope AND e.key = each.key AND e.id = each.id'

const deleteEffectsStatement = defineStatement(
  'delete_effects',
  (tables) => `
  WITH free AS (
    SELECT e.scope, e.key, e.id
      FROM ${tables.effects} AS e, ${eachGiven(tables, GIVEN)}
     WHERE ${IS_THAT_EFFECT}${tables.ofOneShard('e')}
       AND NOT EXISTS (
             SELECT 1 FROM ${tables.keys} AS k WHERE k.scope = e.scope AND k.key = e.key${tables.ofOneShard('k')})
       FOR UPDATE OF e SKIP LOCKED
  )
  DELETE FROM ${tables.effects} AS e USING free AS each WHERE ${IS_THAT_EFFECT}${tables.ofOneShard('e')}
  RETURNING e.id`,
)

/**
 * Deletes those of these effects that nobody has locked, and whose key is gone: while it is there, they say what must not happen
 * again. Returns their ids. Over servers, all of them are in one shard.
 */
export async function deleteEffects(store: Store, old: readonly OldEffect[]): Promise<string[]> {
  const { rows } = await deleteEffectsStatement(store, [
    old.map(({ scope }) => scope),
    old.map(({ key }) => key),
    old.map(({ id }) => id),
  ])
  return rows.map((row) => row['id'] ?? '')
}
