import type { InterventionToErase } from './find-interventions-to-erase.js'
import { gone, moment } from '../renamed.js'
import { defineStatement, eachGiven, type Store } from '../statement.js'

const deleteErasedInterventionsStatement = defineStatement(
  'delete_erased_interventions',
  (tables) => `
  WITH free AS (
    SELECT i.id FROM ${tables.interventions} AS i, ${eachGiven(tables, { id: '$2::uuid[]' })}
     WHERE i.scope = $1 AND i.id = each.id
       FOR UPDATE OF i SKIP LOCKED
  ), gone AS (
    DELETE FROM ${tables.interventions} AS i USING free AS each WHERE i.scope = $1 AND i.id = each.id
    RETURNING i.id
  )
  ${gone('$2')}`,
)

const copyErasedInterventionStatement = defineStatement(
  'copy_erased_intervention',
  ({ interventions }) => `
  INSERT INTO ${interventions} (id, key_id, scope, key, action, actor, reason, detail, created_at)
  VALUES ($1::uuid, $2::uuid, $3, NULL, $4, $5, NULL, NULL, ${moment('$6')})`,
)

/** Takes scope, key, reason and detail out of these records of one scope: all of them, or none and an error. */
export async function renameInterventions(
  { session, tables }: Store,
  scope: string,
  interventions: readonly InterventionToErase[],
  newScope: string,
): Promise<void> {
  const copies = interventions.map(({ id, keyId, action, actor, createdUs }) =>
    copyErasedInterventionStatement.bind(tables, [id, keyId, newScope, action, actor, createdUs]),
  )
  const ids = interventions.map(({ id }) => id)
  await session.runTogether([deleteErasedInterventionsStatement.bind(tables, [scope, ids]), ...copies])
}
