import { FINISHED_KEYS_SEEN } from '../../limits.js'
import { defineStatement, type Store } from '../statement.js'

const hasKeysOfStatement = defineStatement(
  'has_keys_of',
  ({ keys }) => `
  SELECT EXISTS (SELECT 1 FROM ${keys} WHERE status = 'running' AND pipeline = $1)
      OR EXISTS (SELECT 1 FROM ${keys} WHERE status = 'stuck' AND pipeline = $1)
      OR EXISTS (SELECT 1 FROM (SELECT k.pipeline FROM ${keys} AS k WHERE k.status = 'finished'
                               ORDER BY k.expires_at DESC LIMIT ${FINISHED_KEYS_SEEN}) AS latest
                  WHERE latest.pipeline = $1) AS found`,
)

/** Whether there is a key of that pipeline. No index covers the pipelines of finished keys, so only the latest are read. */
export async function hasKeysOf(store: Store, pipeline: string): Promise<boolean> {
  const { rows } = await hasKeysOfStatement(store, [pipeline])
  return rows[0]?.['found'] === 't'
}
