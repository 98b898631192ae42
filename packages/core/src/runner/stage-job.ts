import { randomUUID } from 'node:crypto'
import type { PhaseTransaction } from '../driver/kysely-driver.js'
import { encodeJson, type JsonValue } from '../pipeline/json-value.js'
import type { Stage } from '../pipeline/phase.js'
import { insertStagedJob } from '../storage/stage-statements.js'
import type { Store } from '../storage/statement.js'
import type { Run } from './run.js'

/** `stage` as one phase sees it: bound to its transaction. */
export function stageIn(run: Run, store: Store, transaction: PhaseTransaction, phase: string): Stage {
  const { stager, env } = run.parts
  return async (name, payload, options = {}) => {
    transaction.connection.assertOpen()
    const id = randomUUID()
    const keyId = run.row.id
    const runAfterMs = options.runAfterMs ?? 0
    const what = `the payload of job '${name}' staged by phase '${phase}'`
    const payloadJson = encodeJson(payload, { what, maxBytes: env.caps.stateBytes })
    if (stager === null) {
      await insertStagedJob(store, { id, name, payloadJson, keyId, runAfterMs })
      run.hasStaged = true
    } else {
      await stager.stage({
        tx: transaction.tx,
        id,
        name,
        payload: JSON.parse(payloadJson) as JsonValue,
        keyId,
        runAfterMs,
      })
    }
    return id
  }
}
