import { announce } from '../announce/announce.js'
import { abortedTransaction, endedByUser } from '../driver/kysely-driver.js'
import type { Bound } from '../driver/outgoing.js'
import type { Session } from '../driver/session.js'
import type { SessionTransaction } from '../driver/session-transaction.js'
import { isConnectionLost, PawlError } from '../errors.js'
import { ABORT_GRACE_MS, CONNECTION_DEADLINE_SLACK_MS } from '../limits.js'
import type { Respond, RetryLater } from '../pipeline/directive.js'
import type { StuckReason } from '../pipeline/outcome.js'
import type { AnyPhase } from '../pipeline/phase.js'
import type { ResolvedPhaseSettings } from '../pipeline/settings.js'
import { advanceKey } from '../storage/keys/advance-key.js'
import { type Effect, readAdvanced } from '../storage/keys/advanced.js'
import { finishKey } from '../storage/keys/finish-key.js'
import { isFencedOff, isInAnotherTransaction } from '../storage/keys/held-or-fail.js'
import { isMissingRight, missingRight } from '../storage/schema/missing-right.js'
import type { Tables } from '../storage/tables.js'
import { applyRaised } from './apply-raised.js'
import { pauseBeforeRetry } from './back-off.js'
import { beginStatement, rememberRole, remembersRole, TAKE_ROLE_AGAIN } from './begin-statement.js'
import { classifyError } from './classify-error.js'
import { FencedOff } from './fenced-off.js'
import { interpretReturn, type Returned, type ReturnedBy } from './interpret-return.js'
import { isKeyWentBack, responseBuries } from './key-went-back.js'
import { raiseFenceOf } from './raise-fence.js'
import type { Run } from './run.js'
import { stageIn } from './stage-job.js'
import { failureBy, type StepResult } from './step-result.js'

/** The user's part of a transaction, and what goes with it. */
export interface Work {
  readonly phase: AnyPhase
  readonly by: ReturnedBy
  /** Gets `input`, `state`, `scope`, `keyId`, `tx` and `stage`. */
  readonly body: (context: never) => unknown
  /** Recorded with the advance, in the same statement. */
  readonly effect: Effect | null
  /** The work goes on from a call that may or may not have been executed: the trail says so. */
  readonly outcomeUnknown?: true
  /** Awaited once there is a connection, before BEGIN. */
  readonly beforeBegin: (() => Promise<void>) | null
}

/** How a phase's transaction ended: like a step, or rolled back because the user's part asked for it. */
export type TransactionEnd =
  | StepResult
  | { readonly type: 'rolled_back'; readonly directive: Respond | RetryLater | null }

type TryEnd =
  | TransactionEnd
  | Conflict
  /** The advance was refused because a right is missing. Which one has to be asked, once the session is free. */
  | { readonly type: 'lacks_right'; readonly error: unknown }
  /** COMMIT was sent and not answered. */
  | { readonly type: 'commit_unknown'; readonly error: unknown }

/** It did not commit; another try may. */
interface Conflict {
  readonly type: 'conflict'
  readonly error: unknown
}

/**
 * Runs the user's part and the fenced advance in one transaction, and tries again where that is safe: only the transaction
 * is repeated, never a call.
 */
export async function runTransaction(run: Run, work: Work): Promise<TransactionEnd> {
  const settings = run.engine.settings.phase(run.definition, work.phase.name)
  for (let attempt = 0; ; attempt++) {
    const tried = await tryTransaction(run, work, settings)
    if (tried.type === 'lacks_right')
      return failedBy(run, work, await missingRight(run.engine, tried.error, 'application'))
    const end = tried.type === 'commit_unknown' ? await settleCommit(run, work, tried.error) : tried
    if (end.type !== 'conflict') return end
    const { error } = end
    if (attempt >= settings.transactionRetries || run.engine.stopping.aborted)
      return failedBy(run, work, error)
    announce('pawl:phase_retried', () => ({
      ...run.phaseMessage(work.phase.name),
      error,
      attempt: attempt + 1,
    }))
    await pauseBeforeRetry(attempt)
  }
}

async function tryTransaction(run: Run, work: Work, settings: ResolvedPhaseSettings): Promise<TryEnd> {
  let session: Session
  try {
    session = await run.session(work.phase.name)
  } catch (error) {
    // A server that is coming back may accept the next connection; for an exhausted pool we have waited long enough.
    const refused = error instanceof PawlError && error.cause !== undefined
    return refused ? { type: 'conflict', error } : failedBy(run, work, error)
  }
  let kept = false
  try {
    if (work.beforeBegin !== null) await work.beforeBegin()
    const end = await inTransaction(run, work, settings, session)
    kept = end.type === 'advanced'
    return end
  } finally {
    if (kept) run.keepSession(session)
    else session.release()
  }
}

async function inTransaction(
  run: Run,
  work: Work,
  settings: ResolvedPhaseSettings,
  session: Session,
): Promise<TryEnd> {
  // Asked once: meanwhile another request may learn that the role has to be remembered.
  const remembers = remembersRole(settings)
  const transaction = session.begin(beginStatement(settings), {
    deadlineMs: settings.statementTimeoutMs + CONNECTION_DEADLINE_SLACK_MS,
    idleMs: settings.idleTimeoutMs,
  })
  let advancing = false
  try {
    const staged: Bound[] = []
    const returned = await runBody(run, work, session, transaction, staged)
    if (returned.type === 'roll_back' || returned.type === 'nothing') {
      await transaction.rollBack()
      return { type: 'rolled_back', directive: returned.type === 'nothing' ? null : returned.directive }
    }
    const advance = advanceBy(run, work, run.engine.tables, returned)
    const last = settings.isolation === 'serializable' ? byIndexOnly(advance) : [advance]
    const first = remembers ? [TAKE_ROLE_AGAIN] : []
    advancing = true
    return await commit(run, work, transaction, returned, [...first, ...staged, ...last])
  } catch (error) {
    await transaction.rollBack()
    // The phase may have left rows behind, and must not run again by itself.
    if (transaction.endedEarly || (advancing && isInAnotherTransaction(error)))
      return stuckBy(run, work, 'transaction_ended', endedByUser(work.phase.name))
    // By then the user's part has returned, so none of their functions sees this.
    if (advancing && isFencedOff(error)) throw new FencedOff()
    const lacksRight = advancing && isMissingRight(error)
    if (lacksRight && !remembers) {
      rememberRole(settings)
      return { type: 'conflict', error }
    }
    // A body may have hidden the error that doomed its transaction behind one of its own.
    const met = classifyError(transaction.firstError) === 'conflict' ? transaction.firstError : error
    if (classifyError(met) === 'conflict') return { type: 'conflict', error: met }
    return lacksRight ? { type: 'lacks_right', error } : failedBy(run, work, error)
  }
}

/** What is known of a call stays known, whatever made its transaction, or one before it, fail. */
function failedBy(run: Run, work: Work, error: unknown): StepResult {
  if (isKeyWentBack(error)) return stuckBy(run, work, 'unknown_outcome', error)
  return failureBy(work.phase.name, error, { intent: run.row.intent })
}

function stuckBy({ row }: Run, { phase }: Work, reason: StuckReason, error: unknown): StepResult {
  return { type: 'stuck', phase: phase.name, reason, intent: row.intent, error }
}

async function runBody(
  run: Run,
  work: Work,
  session: Session,
  transaction: SessionTransaction,
  staged: Bound[],
): Promise<Returned> {
  const { engine, row, definition } = run
  const phase = work.phase.name
  const ofPhase = engine.kysely.onTransaction(session, transaction, phase)
  const { connection } = ofPhase
  const stage = stageIn(run, staged, ofPhase, phase)
  const { input, state, scope, keyId } = run.phaseContext()
  const context = { input, state, scope, keyId, tx: ofPhase.tx, stage }
  let value: unknown
  try {
    const body = engine.strict.inTransaction(phase, async () => work.body(context as never))
    value = await unlessCutOff(body, session, phase)
  } finally {
    connection.close()
  }
  connection.assertNotEnded()
  // Checked before the advance, which would otherwise fail with an error that tells the user nothing.
  if (transaction.isDoomed) throw abortedTransaction(transaction, `phase '${phase}'`)
  const at = { pipeline: definition.name, phase, stateJson: row.stateJson, caps: engine.caps }
  const returned = interpretReturn(value, work.by, at)
  const { intent } = row
  if (returned.type === 'finish' && intent?.kind === 'called' && intent.phase !== phase)
    throw responseBuries(intent, phase, returned.response.status)
  return returned
}

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
    `Phase '${phase}' did not return before its transaction was ended. Do nothing in a phase but queries through tx.`,
  )

type Onward = Extract<Returned, { type: 'advance' | 'finish' }>

/** Writes the advance and commits it, in one round trip: if the advance fails, COMMIT is not executed. */
async function commit(
  run: Run,
  work: Work,
  transaction: SessionTransaction,
  returned: Onward,
  statements: readonly Bound[],
): Promise<TryEnd> {
  const sentAt = performance.now()
  try {
    const results = await transaction.commit(statements)
    const [advanced, committed] = results.slice(-2)
    // A transaction that failed unnoticed answers COMMIT with ROLLBACK, and no error.
    if (committed?.command !== 'COMMIT') throw abortedTransaction(transaction, `phase '${work.phase.name}'`)
    const { nowMs, expiresMs } = readAdvanced(advanced?.rows[0] ?? {})
    if (returned.type === 'finish')
      return { type: 'finished', response: returned.response, expiresMs: expiresMs ?? nowMs }
    run.advanced(work.phase.name, returned.stateJson, nowMs, sentAt, {
      outcomeUnknown: work.outcomeUnknown === true,
    })
    return { type: 'advanced' }
  } catch (error) {
    if (isConnectionLost(error) && transaction.commitSent) return { type: 'commit_unknown', error }
    throw error
  }
}

function advanceBy(run: Run, work: Work, tables: Tables, returned: Onward): Bound {
  const { settings } = run.engine
  const { definition, hold } = run
  const phase = work.phase.name
  const carriedCallOf = run.carriedCallOf(phase)
  if (returned.type === 'finish') {
    const { retentionMs } = settings.pipeline(definition)
    const to = { phase, response: returned.response, retentionMs, carriedCallOf }
    return finishKey(tables, hold, to, recordOf(work))
  }
  const leaseMs = settings.leaseMsAt(definition, phase)
  const to = { point: phase, stateJson: returned.stateJson, leaseMs, carriedCallOf }
  return advanceKey(tables, hold, to, recordOf(work))
}

function recordOf({ effect, outcomeUnknown }: Work): Effect | 'outcome_unknown' | null {
  return outcomeUnknown === true ? 'outcome_unknown' : effect
}

/** Finds out what became of a COMMIT that got no answer, by raising the fence: after that, it can no longer land. */
async function settleCommit(run: Run, work: Work, error: unknown): Promise<StepResult | Conflict> {
  const sentAt = performance.now()
  const raised = await raiseFenceOf(run, error)
  if (raised === 'unreachable') return failedBy(run, work, error)
  const moved = applyRaised(run, raised, sentAt)
  announce('pawl:commit_settled', () => ({
    ...run.phaseMessage(work.phase.name),
    committed: moved === 'forward',
  }))
  if (raised.response !== null) {
    return { type: 'finished', response: raised.response, expiresMs: raised.expiresMs ?? raised.nowMs }
  }
  if (moved === 'back') return { type: 'again' }
  return moved === 'forward' ? { type: 'advanced' } : { type: 'conflict', error }
}

/**
 * Under SERIALIZABLE, a sequential scan of a small key table makes phases of unrelated keys abort each other. This comes
 * after the user's statements, whose plans it must not change; and a plan made before it must not be used.
 */
function byIndexOnly({ statement, values }: Bound): Bound[] {
  const { name, text } = statement
  return [
    { statement: { name: 'index_scans_only', text: 'SET LOCAL enable_seqscan = off' } },
    { statement: { name, text }, ...(values !== undefined && { values }) },
  ]
}
