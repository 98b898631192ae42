import type { Bound } from '../../driver/outgoing.js'
import { defineStatement, msInterval } from '../statement.js'
import type { Tables } from '../tables.js'

export interface StagedJob {
  readonly id: string
  readonly name: string
  readonly payloadJson: string
  readonly keyId: string
  readonly runAfterMs: number
}

const insertStagedJobStatement = defineStatement(
  'insert_staged_job',
  ({ stagedJobs }) => `
  INSERT INTO ${stagedJobs} (id, name, payload, key_id, run_after)
  VALUES ($1::uuid, $2, $3::json, $4::uuid, clock_timestamp() + ${msInterval('$5')})`,
)

/** Writes a job in the phase's own transaction; the relay hands it over once that has committed. */
export function insertStagedJob(tables: Tables, job: StagedJob): Bound {
  const { id, name, payloadJson, keyId, runAfterMs } = job
  return insertStagedJobStatement.bind(tables, [id, name, payloadJson, keyId, runAfterMs])
}
