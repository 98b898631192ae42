import { randomUUID } from 'node:crypto'
import type { RideTrial } from '../support/ride-trial.js'

/** How long the leases of a trial still last by the database's clock, shortest first. */
export async function leasesLeftMs(trial: RideTrial): Promise<number[]> {
  const rows = await trial.database.rows<{ left_ms: number }>(
    `SELECT extract(epoch FROM lease_until - clock_timestamp())::float * 1000 AS left_ms FROM pawl.idempotency_keys
      WHERE scope = $1 ORDER BY 1`,
    [trial.scope],
  )
  return rows.map((row) => row.left_ms)
}

/** The hold of a key that does not exist: a renewal finds it lost. */
export function holdOfNoKey() {
  const hold = { scope: 'nobody', fence: 1, recoveryPoint: 'started' }
  return { ...hold, id: randomUUID(), key: randomUUID(), holder: randomUUID() }
}
