import { openNote } from './sealed-note.js'
import { defineStatement, epochMs, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

/** An intervention's row. */
export interface InterventionRow {
  readonly action: string
  readonly actor: string
  readonly reason: string | null
  readonly detailJson: string
  readonly createdMs: number
}

const findInterventionsStatement = defineStatement(
  'find_interventions',
  ({ interventions }) => `
  SELECT i.action, i.actor, i.reason, i.detail, ${epochMs('i.created_at')} AS created_ms
    FROM ${interventions} AS i WHERE i.scope = $1 AND i.key_id = $2::uuid
   ORDER BY i.created_at LIMIT $3::integer`,
)

const findLatestInterventionsStatement = defineStatement(
  'find_latest_interventions',
  ({ interventions }) => `
  SELECT i.action, i.actor, i.reason, i.detail, ${epochMs('i.created_at')} AS created_ms
    FROM ${interventions} AS i WHERE i.scope = $1 AND i.key_id = $2::uuid
   ORDER BY i.created_at DESC LIMIT $3::integer`,
)

interface OfKey {
  readonly id: string
  readonly scope: string
  readonly key: string
}

/** What people did to a key, oldest first. */
export async function findInterventions(store: Store, key: OfKey, limit: number): Promise<InterventionRow[]> {
  const { rows } = await findInterventionsStatement(store, [key.scope, key.id, limit])
  return rows.map((row) => readInterventionRow(row, store.tables, key))
}

/** The same, latest first. */
export async function findLatestInterventions(
  store: Store,
  key: OfKey,
  limit: number,
): Promise<InterventionRow[]> {
  const { rows } = await findLatestInterventionsStatement(store, [key.scope, key.id, limit])
  return rows.map((row) => readInterventionRow(row, store.tables, key))
}

export function readInterventionRow(
  row: Readonly<Record<string, string | null>>,
  tables: Tables,
  key: OfKey,
): InterventionRow {
  return {
    action: row['action'] ?? '',
    actor: row['actor'] ?? '',
    reason: row['reason'] ?? null,
    detailJson: openNote(tables, key, row['detail'] ?? 'null'),
    createdMs: Number(row['created_ms']),
  }
}
