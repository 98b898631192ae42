import { deliverEach, type Sink } from '@pawl/core'
import type { Pool } from 'pg'

/** Hands staged jobs to graphile-worker. The job's id is its key there: one that is handed over twice is queued once. */
export function graphileQueue(pool: Pool): Sink {
  return deliverEach(async ({ id, name, payload }) => {
    await pool.query('SELECT graphile_worker.add_job($1, payload => $2::json, job_key => $3)', [
      name,
      JSON.stringify(payload),
      id,
    ])
  })
}
