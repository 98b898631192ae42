import { eachJobOf, IS_THAT_JOB } from './job-name.js'
import { epochMs, NOW } from '../statement.js'
import type { Tables } from '../tables.js'

/**
 * Makes the chosen jobs new again and notes each one: a single statement, so that neither can happen without the other. A
 * note's id is made from the job and the moment it died, because no server is asked for a random one in a write. The
 * key is looked up by a subselect: for a join, the planner would rather read the whole table than look up five hundred keys.
 */
export const requeueing =
  (chosen: (tables: Tables) => string) =>
  (tables: Tables): string =>
    `
  WITH chosen AS (${chosen(tables)}), requeued AS (
    UPDATE ${tables.stagedJobs} AS j
       SET ${NEW_AGAIN}
      FROM ${eachJobOf(tables, 'chosen')}
     WHERE ${IS_THAT_JOB} AND ${IS_DEAD}
    RETURNING j.id
  ), noted AS (
    INSERT INTO ${tables.interventions} (id, key_id, scope, key, action, actor, reason, detail, created_at)
    SELECT ${noteId('chosen')}, chosen.key_id, chosen.scope,
           (SELECT k.key FROM ${tables.keys} AS k WHERE k.scope = chosen.scope AND k.id = chosen.key_id), 'requeue', $1, $2,
           ${noteDetail('chosen', '$3')}, ${NOW}
      FROM requeued JOIN chosen ON chosen.id = requeued.id
  )
  SELECT id FROM requeued`

export const NEW_AGAIN = `dead_at = NULL, attempts = 0, run_after = ${NOW}, claim = NULL, claim_until = NULL`

export const noteId = (job: string): string =>
  `md5((${job}.id::text || ${epochMs(`${job}.dead_at`)}::text))::uuid`

export const noteDetail = (job: string, given: string): string => `
           json_build_object('before', json_build_object('jobId', ${job}.id, 'name', ${job}.name,
             'attempts', ${job}.attempts, 'deadAt', ${job}.dead_at, 'lastError', ${job}.last_error), 'given', ${given}::json)`

/** For jobs that are named: so written that the planner does not go through all dead jobs by their index. */
const IS_DEAD = `(j.dead_at + interval '0') IS NOT NULL`

export const CHOSEN_COLUMNS = 'j.id, j.scope, j.key_id, j.seq, j.name, j.attempts, j.dead_at, j.last_error'

/** Who has jobs delivered again. `givenJson`: how they were chosen. */
export interface Requeueing {
  readonly actor: string
  readonly reason: string
  readonly givenJson: string
}
