import type { OldEffect } from './find-old-effects.js'
import { defineStatement, epochMs, eachGiven, type Store } from '../statement.js'

const IS_NAMED = 'e.scope = named.scope AND e.key = named.key AND e.id = named.id'

const deleteEffectsStatement = defineStatement(
  'delete_effects',
  ({ effects, ofOneShard }) => `
  WITH free AS (
    SELECT e.scope, e.key, e.id
      FROM ${effects} AS e, ${eachGiven('$1::text[]', '$2::text[]', '$3::uuid[]')} AS named (scope, key, id)
     WHERE ${IS_NAMED}${ofOneShard('e')}
       FOR UPDATE OF e SKIP LOCKED
  )
  DELETE FROM ${effects} AS e USING free AS named WHERE ${IS_NAMED}${ofOneShard('e')}
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
