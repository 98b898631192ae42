import { abortedTransaction } from '../driver/kysely-driver.js'
import type { Bound } from '../driver/outgoing.js'
import type { Session } from '../driver/session.js'
import type { SessionTransaction } from '../driver/session-transaction.js'
import { PawlError } from '../errors.js'
import { ABORT_GRACE_MS } from '../limits.js'
import { interpretReturn, type Returned } from './interpret-return.js'
import { responseBuries } from './key-went-back.js'
import type { Leg } from './leg.js'
import type { Run } from './run.js'
import type { StrictMode } from './strict-mode.js'
import { stageIn } from './stage-job.js'
import type { Work } from './work.js'
import { writeIn } from './write-in.js'

/** Runs the user's part of a transaction, and interprets what it returned. */
export async function runBody(
  run: Run,
  work: Work,
  leg: Leg,
  session: Session,
  transaction: SessionTransaction,
  staged: Bound[],
): Promise<Returned> {
  const { engine, row, definition } = run
  const phase = work.phase.name
  const ofPhase = engine.kysely.onTransaction(session, transaction, phase)
  const { connection } = ofPhase
  const stage = stageIn(run, leg, staged, ofPhase, phase)
  const { input, state, scope, keyId } = run.phaseContext(leg.stateJson)
  const context = { input, state, scope, keyId, tx: ofPhase.tx, write: writeIn(ofPhase, phase), stage }
  let value: unknown
  try {
    const body = traceBody(run, phase, async () => work.body(context as never))
    value = await unlessCutOff(body, session, phase)
  } finally {
    connection.close()
  }
  connection.assertNotEnded()
  // Checked before the advance, which would otherwise fail with an error that tells the user nothing.
  if (transaction.isDoomed) throw abortedTransaction(transaction, `phase '${phase}'`)
  const at = { pipeline: definition.name, phase, stateJson: leg.stateJson, caps: engine.caps }
  const returned = interpretReturn(value, work.by, at)
  const { intent } = row
  if (returned.type === 'finish' && intent?.kind === 'called' && intent.phase !== leg.firstPhase)
    throw responseBuries(intent, phase, returned.response.status)
  return returned
}

function traceBody({ engine }: Run, phase: string, body: () => Promise<unknown>): Promise<unknown> {
  const { strict, tracing } = engine
  if (tracing.current === null) return strict.inTransaction(phase, body)
  return tracing.current.body(phase, bodyLater(strict, phase, body))
}

const bodyLater = (strict: StrictMode, phase: string, body: () => Promise<unknown>) => (): Promise<unknown> =>
  strict.inTransaction(phase, body)

/**
 * Rejects if the body goes on although its connection is gone: it waits for something that may never come, and would occupy
 * a place in the pool for as long. A body that only has to notice gets the time to do so.
 */
function unlessCutOff(body: Promise<unknown>, session: Session, phase: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    body.then(resolve, reject)
    session.onceLost(() => setTimeout(() => reject(cutOff(phase)), ABORT_GRACE_MS))
  })
}

const cutOff = (phase: string): PawlError =>
  new PawlError(
    'PAWL_PHASE_TIMEOUT',
    `Phase '${phase}' did not return before its transaction was ended. Do nothing in a phase except queries through tx.`,
  )
