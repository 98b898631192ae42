import { defineStatement, eachGiven, NOW, type Store } from '../statement.js'

const IS_THAT_ROW = 'j.scope = $1 AND j.key_id = each.key_id AND j.seq = each.seq'

/** A dead job may have been put back since, and somebody may be delivering one that is not dead. */
const MAY_GO = `(j.dead_at IS NOT NULL OR ($4::boolean AND (j.claim_until IS NULL OR j.claim_until <= ${NOW})))`

const eraseJobsStatement = defineStatement(
  'erase_jobs',
  (tables) => `
  WITH free AS (
    SELECT j.key_id, j.seq
      FROM ${tables.stagedJobs} AS j, ${eachGiven(tables, { key_id: '$2::uuid[]', seq: '$3::bigint[]' })}
     WHERE ${IS_THAT_ROW} AND ${MAY_GO}
       FOR UPDATE OF j SKIP LOCKED
  )
  DELETE FROM ${tables.stagedJobs} AS j USING free AS each WHERE ${IS_THAT_ROW} AND ${MAY_GO}
  RETURNING j.id`,
)

/** Deletes those of these jobs of one scope that are dead, or that nobody is delivering. Returns their ids. */
export async function eraseJobs(
  store: Store,
  scope: string,
  jobs: readonly { readonly keyId: string; readonly seq: number }[],
  undelivered: boolean,
): Promise<string[]> {
  const values = [scope, jobs.map(({ keyId }) => keyId), jobs.map(({ seq }) => seq), undelivered]
  const { rows } = await eraseJobsStatement(store, values)
  return rows.map((row) => row['id'] ?? '')
}
