import { wasThere } from '../keys/find-keys-to-erase.js'
import { defineStatement, type Store } from '../statement.js'

/** The record of an intervention, without what is erased from it. */
export interface InterventionToErase {
  readonly id: string
  readonly keyId: string | null
  readonly action: string
  readonly actor: string
  readonly createdUs: string
}

const findInterventionsToEraseStatement = defineStatement(
  'find_interventions_to_erase',
  ({ keys, interventions }) => `
  SELECT i.id, i.key_id, i.action, i.actor, floor(extract(epoch FROM i.created_at) * 1000000) AS created_us
    FROM ${interventions} AS i
   WHERE i.scope = $1 AND i.id > $2::uuid
     AND ($3::text IS NULL OR i.key = $3 OR i.key_id = ANY ($4::uuid[]))
     AND ${wasThere("(i.created_at + interval '0')", '$5')}
     AND ($6::boolean OR (SELECT k.revision FROM ${keys} AS k WHERE k.scope = $1 AND k.id = i.key_id) IS NULL)
   ORDER BY i.id LIMIT $7::integer`,
)

/** A page of what people did to keys of a scope that are no longer there, after the last one of the page before. */
export async function findInterventionsToErase(
  store: Store,
  of: {
    readonly scope: string
    readonly key: string | null
    readonly keyIds: readonly string[] | null
    readonly beganMs: number
    /** Also of keys that are still there. */
    readonly ofAnyKey: boolean
  },
  after: string,
  limit: number,
): Promise<InterventionToErase[]> {
  const values = [of.scope, after, of.key, of.keyIds, of.beganMs, of.ofAnyKey, limit]
  const { rows } = await findInterventionsToEraseStatement(store, values)
  return rows.map((row) => ({
    id: row['id'] ?? '',
    keyId: row['key_id'] ?? null,
    action: row['action'] ?? '',
    actor: row['actor'] ?? '',
    createdUs: row['created_us'] ?? '0',
  }))
}
