import { defineStatement, msInterval, type Store } from './statement.js'

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
export async function insertStagedJob(store: Store, job: StagedJob): Promise<void> {
  await insertStagedJobStatement(store, [job.id, job.name, job.payloadJson, job.keyId, job.runAfterMs])
}
