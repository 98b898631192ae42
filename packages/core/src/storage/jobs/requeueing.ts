import type { Tables } from '../tables.js'

/**
 * Makes the chosen jobs new again and notes each one: a single statement, so that neither can happen without the other.
 * It uses an array instead of a join, because the planner would rather read the whole table than look up five hundred
 * jobs.
 */
export const requeueing =
  (chosen: (tables: Tables) => string) =>
  (tables: Tables): string =>
    `
  WITH chosen AS (${chosen(tables)}), requeued AS (
    UPDATE ${tables.stagedJobs} AS j
       SET dead_at = NULL, attempts = 0, run_after = clock_timestamp(), claim = NULL, claim_until = NULL
     WHERE j.id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING j.id
  ), noted AS (
    INSERT INTO ${tables.interventions} (key_id, scope, key, action, actor, reason, detail)
    SELECT chosen.key_id, k.scope, k.key, 'requeue', $1, $2,
           json_build_object('before', json_build_object('jobId', chosen.id, 'name', chosen.name,
             'attempts', chosen.attempts, 'deadAt', chosen.dead_at, 'lastError', chosen.last_error), 'given', $3::json)
      FROM requeued JOIN chosen ON chosen.id = requeued.id LEFT JOIN ${tables.keys} AS k ON k.id = chosen.key_id
  )
  SELECT id FROM requeued`

export const CHOSEN_COLUMNS = 'j.id, j.key_id, j.name, j.attempts, j.dead_at, j.last_error'

/** Who has jobs delivered again. `givenJson`: how they were chosen. */
export interface Requeueing {
  readonly actor: string
  readonly reason: string
  readonly givenJson: string
}
