import { defineStatement, type Store } from '../statement.js'

/** All indexes of the framework's tables. Without one of them, some statement reads a whole table. */
export const EXPECTED_INDEXES = [
  'idempotency_keys_pkey',
  'idempotency_keys_scope_key_key',
  'idempotency_keys_running',
  'idempotency_keys_stuck',
  'idempotency_keys_unfinished',
  'idempotency_keys_finished',
  'effects_pkey',
  'effects_by_time',
  'staged_jobs_pkey',
  'staged_jobs_waiting',
  'staged_jobs_by_scope',
  'staged_jobs_dead',
  'staged_jobs_dead_by_id',
  'interventions_pkey',
  'interventions_by_key',
  'interventions_by_time',
  'scope_usage_pkey',
  'cache_epoch_pkey',
  'pipelines_pkey',
  'duplicates_pkey',
  'duplicates_by_minute',
  'readings_pkey',
] as const

const readIndexesStatement = defineStatement(
  'read_indexes',
  ({ schema }) => `
  SELECT c.relname AS name, i.indisvalid AND i.indisready AS valid
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
   WHERE c.relnamespace = to_regnamespace('"${schema}"')`,
)

/** The indexes that are there, and whether each can be used. */
export async function readIndexes(store: Store): Promise<ReadonlyMap<string, boolean>> {
  const { rows } = await readIndexesStatement(store, [])
  return new Map(rows.map((row) => [row['name'] ?? '', row['valid'] === 't']))
}
