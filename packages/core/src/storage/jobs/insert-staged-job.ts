import type { Bound } from '../../driver/outgoing.js'
import { defineStatement, msInterval, NOW } from '../statement.js'
import { sealJson } from '../sealed-values.js'
import type { Tables } from '../tables.js'
import type { JobName } from './job-name.js'

export interface StagedJob extends JobName {
  readonly id: string
  readonly name: string
  readonly payloadJson: string
  readonly runAfterMs: number
  /** The W3C `traceparent` of the request that reserved its key; null for none. */
  readonly traceparent: string | null
}

const insertStagedJobStatement = defineStatement(
  'insert_staged_job',
  ({ stagedJobs }) => `
  INSERT INTO ${stagedJobs} (id, scope, key_id, seq, name, payload, run_after, created_at, traceparent)
  VALUES ($1::uuid, $2, $3::uuid, $4::bigint, $5, $6::json, ${NOW} + ${msInterval('$7')}, ${NOW}, $8)`,
)

/** Writes a job in the phase's own transaction; the relay hands it over once that has committed. */
export function insertStagedJob(tables: Tables, job: StagedJob): Bound {
  const { id, scope, keyId, seq, name, payloadJson, runAfterMs, traceparent } = job
  const payload = sealJson(tables, { id, scope }, 'payload', payloadJson)
  const values = [id, scope, keyId, seq, name, payload, runAfterMs, traceparent]
  return insertStagedJobStatement.bind(tables, values)
}
