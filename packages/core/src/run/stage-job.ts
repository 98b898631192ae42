import { checkKnownOptions, invalidOption, type OptionOwner } from '../check-option.js'
import type { PhaseTransaction } from '../driver/kysely-driver.js'
import type { Bound } from '../driver/outgoing.js'
import { MAX_DURATION_MS, MAX_JOB_NAME_LENGTH } from '../limits.js'
import { encodeJson, type JsonValue } from '../pipeline/json-value.js'
import type { Stage } from '../pipeline/phase.js'
import { unstorableIn } from '../storable-text.js'
import { insertStagedJob } from '../storage/jobs/insert-staged-job.js'
import { uuidV7 } from '../uuid-v7.js'
import type { Leg } from './leg.js'
import type { Run } from './run.js'

/** Numbers the jobs of a key in the order of its phases, however many each of them stages. */
const JOBS_PER_PHASE = 1_000_000

/**
 * `stage` as one phase sees it: bound to its transaction. Rows go to `staged`, to be written along with the advance:
 * everything that could be wrong with them has been checked by then.
 */
export function stageIn(
  run: Run,
  leg: Leg,
  staged: Bound[],
  transaction: PhaseTransaction,
  phase: string,
): Stage {
  const { stager, tables, caps } = run.engine
  let count = 0
  return async (name, payload, options = {}) => {
    transaction.connection.assertOpen()
    checkStaged(phase, name, options)
    const id = uuidV7()
    const { id: keyId, scope, traceparent } = run.row
    const runAfterMs = options.runAfterMs ?? 0
    const what = `the payload of job '${name}' staged by phase '${phase}'`
    const payloadJson = encodeJson(payload, { what, maxBytes: caps.stateBytes })
    if (stager === null) {
      const seq = leg.trail.length * JOBS_PER_PHASE + ++count
      const job = { id, scope, keyId, seq, name, payloadJson, runAfterMs, traceparent }
      staged.push(insertStagedJob(tables, job))
      run.hasStaged = true
    } else {
      await stager.stage({
        tx: transaction.tx,
        id,
        name,
        payload: JSON.parse(payloadJson) as JsonValue,
        keyId,
        runAfterMs,
        traceparent,
      })
    }
    return id
  }
}

/**
 * Checks a job before it is written: what PostgreSQL refuses would fail the whole phase with an error that names no job,
 * and the table takes a name of any length.
 */
function checkStaged(phase: string, name: unknown, options: { readonly runAfterMs?: number }): void {
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: `phase '${phase}', stage` }
  const isText = typeof name === 'string' && name !== '' && name.length <= MAX_JOB_NAME_LENGTH
  if (!isText || unstorableIn(name) !== null)
    throw invalidOption(owner, 'the name', name, `a text of 1 to ${MAX_JOB_NAME_LENGTH} characters`)
  const ofJob = { ...owner, where: `phase '${phase}', job '${name}'` }
  checkKnownOptions(ofJob, options, ['runAfterMs'])
  const { runAfterMs = 0 } = options
  if (!(Number.isFinite(runAfterMs) && runAfterMs <= MAX_DURATION_MS))
    throw invalidOption(ofJob, 'runAfterMs', runAfterMs, `a number of up to ${MAX_DURATION_MS}`)
}
