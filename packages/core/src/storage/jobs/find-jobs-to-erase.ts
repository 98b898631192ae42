import { wasThere } from '../keys/find-keys-to-erase.js'
import { defineStatement, type Store } from '../statement.js'

/** A job of a scope. */
export interface JobToErase {
  readonly id: string
  readonly keyId: string
  readonly seq: number
  readonly name: string
  readonly isDead: boolean
}

const findJobsToEraseStatement = defineStatement(
  'find_jobs_to_erase',
  ({ stagedJobs }) => `
  SELECT j.id, j.key_id, j.seq, j.name, j.dead_at IS NOT NULL AS is_dead FROM ${stagedJobs} AS j
   WHERE j.scope = $1 AND (j.key_id, j.seq) > ($2::uuid, $3::bigint)
     AND ($4::uuid[] IS NULL OR j.key_id = ANY ($4::uuid[]))
     AND ${wasThere('j.created_at', '$5')}
   ORDER BY j.key_id, j.seq LIMIT $6::integer`,
)

/** A page of the jobs of a scope, or of these keys of it, after the last one of the page before. */
export async function findJobsToErase(
  store: Store,
  of: { readonly scope: string; readonly keyIds: readonly string[] | null; readonly beganMs: number },
  after: Pick<JobToErase, 'keyId' | 'seq'>,
  limit: number,
): Promise<JobToErase[]> {
  const values = [of.scope, after.keyId, after.seq, of.keyIds, of.beganMs, limit]
  const { rows } = await findJobsToEraseStatement(store, values)
  return rows.map((row) => ({
    id: row['id'] ?? '',
    keyId: row['key_id'] ?? '',
    seq: Number(row['seq']),
    name: row['name'] ?? '',
    isDead: row['is_dead'] === 't',
  }))
}
