import type { DeadJobName } from './find-dead-job-names.js'
import { eachGivenJob, IS_THAT_JOB, namesOf } from './job-name.js'
import { NEW_AGAIN, noteDetail, noteId, type Requeueing } from './requeueing.js'
import { defineStatement, NOW, type Store } from '../statement.js'

/** Before they are made new again. Somebody who does the same at the same time has noted it under the same id. */
const noteRequeueStatement = defineStatement(
  'note_requeue',
  ({ keys, stagedJobs, interventions, ofOneShard }) => `
  INSERT INTO ${interventions} AS i (id, key_id, scope, key, action, actor, reason, detail, created_at)
  SELECT ${noteId('j')}, j.key_id, j.scope, k.key, 'requeue', $4, $5, ${noteDetail('j', '$6')}, ${NOW}
    FROM ${stagedJobs} AS j
    LEFT JOIN ${keys} AS k ON k.scope = j.scope AND k.id = j.key_id${ofOneShard('k')}
   WHERE j.key_id = ANY ($2::uuid[]) AND j.seq = ANY ($3::bigint[]) AND j.id = ANY ($7::uuid[])${ofOneShard('j')} AND j.dead_at IS NOT NULL
  ON CONFLICT (scope, id) DO NOTHING`,
)

const requeueNamedJobsStatement = defineStatement(
  'requeue_named_jobs',
  (tables) => `
  UPDATE ${tables.stagedJobs} AS j SET ${NEW_AGAIN} FROM ${eachGivenJob(tables)}
   WHERE ${IS_THAT_JOB}${tables.ofOneShard('j')} AND j.dead_at IS NOT NULL
  RETURNING j.id`,
)

/**
 * Has jobs of one shard that are dead delivered again, and notes each: in one transaction, because Citus cannot do both in one
 * statement. Returns their ids.
 */
export async function requeueNamedJobs(
  { session, tables }: Store,
  jobs: readonly DeadJobName[],
  { actor, reason, givenJson }: Requeueing,
): Promise<string[]> {
  const names = namesOf(jobs)
  const { rows } = await session.runTogether([
    noteRequeueStatement.bind(tables, [...names, actor, reason, givenJson, jobs.map(({ id }) => id)]),
    requeueNamedJobsStatement.bind(tables, names),
  ])
  return rows.map((row) => row['id'] ?? '')
}
