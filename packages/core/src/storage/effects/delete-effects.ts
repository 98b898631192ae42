import type { OldEffect } from './find-old-effects.js'
import { defineStatement, eachGiven, epochMs, type Store } from '../statement.js'

const GIVEN = { scope: '$1::text[]', key: '$2::text[]', id: '$3::uuid[]' }

const IS_THAT_EFFECT = 'e.scope = each.scope AND e.key = each.key AND e.id = each.id'

const deleteEffectsStatement = defineStatement(
  'delete_effects',
  (tables) => `
  WITH free AS (
    SELECT e.scope, e.key, e.id
      FROM ${tables.effects} AS e, ${eachGiven(tables, GIVEN)}
     WHERE ${IS_THAT_EFFECT}${tables.ofOneShard('e')}
       FOR UPDATE OF e SKIP LOCKED
  )
  DELETE FROM ${tables.effects} AS e USING free AS each WHERE ${IS_THAT_EFFECT}${tables.ofOneShard('e')}
  RETURNING ${epochMs('e.created_at')} AS created_ms`,
)

/** Deletes those of these effects that nobody has locked; returns when each was settled. Over servers, all of them are in one shard. */
export async function deleteEffects(store: Store, old: readonly OldEffect[]): Promise<number[]> {
  const { rows } = await deleteEffectsStatement(store, [
    old.map(({ scope }) => scope),
    old.map(({ key }) => key),
    old.map(({ id }) => id),
  ])
  return rows.map((row) => Number(row['created_ms']))
}
