import { announce } from '../announce/announce.js'
import { abortedTransaction, endedByUser } from '../driver/kysely-driver.js'
import type { Bound } from '../driver/outgoing.js'
import type { Session } from '../driver/session.js'
import { isOfAnotherServer } from '../driver/postgres-error.js'
import type { SessionTransaction } from '../driver/session-transaction.js'
import { KEEP_PLANS } from '../driver/stand-alone.js'
import { PawlError } from '../errors.js'
import { CONNECTION_DEADLINE_SLACK_MS, DEFAULT_EFFECT_RETENTION_MS } from '../limits.js'
import type { Respond, RetryLater } from '../pipeline/directive.js'
import type { StuckReason } from '../pipeline/outcome.js'
import type { IsolationLevel, ResolvedPhaseSettings } from '../pipeline/settings.js'
import { advanceKey } from '../storage/keys/advance-key.js'
import { insertEffect } from '../storage/effects/insert-effect.js'
import { readAdvanced } from '../storage/keys/advanced.js'
import { finishKey } from '../storage/keys/finish-key.js'
import { advanceFoundNoRow, isInAnotherTransaction } from '../storage/keys/held-or-fail.js'
import type { TrailEntry } from '../storage/keys/trail.js'
import { countedKey } from '../storage/usage/stored-bytes.js'
import { isMissingRight, missingRight } from '../storage/schema/missing-right.js'
import { applyRaised } from './apply-raised.js'
import { pauseBeforeRetry } from './back-off.js'
import {
  beginStatement,
  rememberRole,
  remembersRole,
  TAKE_ROLE_AGAIN,
  WAIT_FOR_DISK,
} from './begin-statement.js'
import { classifyError } from './classify-error.js'
import { FencedOff } from './fenced-off.js'
import type { Returned } from './interpret-return.js'
import { Leg } from './leg.js'
import { isKeyWentBack } from './key-went-back.js'
import { raiseFenceOf } from './raise-fence-of.js'
import type { Run } from './run.js'
import { runBody } from './run-body.js'
import { failureBy, type StepResult } from './step-result.js'
import { localWork, type Work } from './work.js'

/** How a phase's transaction ended: like a step, or rolled back because the user's part asked for it. */
export type TransactionEnd =
  | StepResult
  | {
      readonly type: 'rolled_back'
      readonly phase: string
      readonly directive: Respond | RetryLater | null
    }

type TryEnd =
  | TransactionEnd
  | Conflict
  /** The advance was refused because a right is missing. Which one has to be asked, once the session is free. */
  | { readonly type: 'lacks_right'; readonly error: unknown }
  /** COMMIT was sent and not answered. `declares`: the phase whose call would then be declared, and has not been made. */
  | { readonly type: 'commit_unknown'; readonly error: unknown; readonly declares: string | null }

/** It did not commit; another try may. */
interface Conflict {
  readonly type: 'conflict'
  readonly phase: string
  readonly error: unknown
}

/**
 * Runs the user's part and the fenced advance in one transaction, and tries again where that is safe: only the transaction
 * is repeated, never a call. Phases that share the transaction follow in it: see `Leg`.
 */
export async function runTransaction(
  run: Run,
  work: Work,
  from = Leg.startingWith(run, work.phase),
): Promise<TransactionEnd> {
  const settings = run.engine.settings.phase(run.definition, work.phase.name)
  for (let attempt = 0; ; attempt++) {
    const tried = await tryTransaction(run, work, from, settings)
    if (tried.type === 'lacks_right')
      return failedBy(run, work.phase.name, await missingRight(run.engine, tried.error, 'application'))
    const end = tried.type === 'commit_unknown' ? await settleCommit(run, work, tried) : tried
    if (end.type !== 'conflict') return end
    const { error, phase } = end
    if (attempt >= settings.transactionRetries || run.engine.stopping.aborted)
      return failedBy(run, phase, error)
    announce('pawl:phase_retried', () => ({
      ...run.phaseMessage(phase),
      error,
      attempt: attempt + 1,
    }))
    await pauseBeforeRetry(attempt)
  }
}

async function tryTransaction(
  run: Run,
  work: Work,
  from: Leg,
  settings: ResolvedPhaseSettings,
): Promise<TryEnd> {
  const phase = work.phase.name
  let session: Session
  try {
    session = await run.session(phase)
  } catch (error) {
    // A server that is coming back may accept the next connection; for an exhausted pool we have waited long enough.
    const refused = error instanceof PawlError && error.cause !== undefined
    return refused ? { type: 'conflict', phase, error } : failedBy(run, phase, error)
  }
  let kept = false
  try {
    if (work.beforeBegin !== null) await work.beforeBegin()
    const end = await inTransaction(run, work, from, settings, session)
    kept = end.type === 'advanced'
    return end
  } finally {
    if (kept) run.keepSession(session)
    else session.release()
  }
}

async function inTransaction(
  run: Run,
  first: Work,
  from: Leg,
  settings: ResolvedPhaseSettings,
  session: Session,
): Promise<TryEnd> {
  // Asked once: meanwhile another request may learn that the role has to be remembered.
  const remembers = remembersRole(settings)
  const { spread } = run.engine.tables
  const begunOverServers = spread.overServers
  const transaction = session.begin(beginStatement(settings, spread), {
    deadlineMs: settings.statementTimeoutMs + CONNECTION_DEADLINE_SLACK_MS,
    idleMs: settings.idleTimeoutMs,
  })
  const staged: Bound[] = []
  run.phase = first.phase.name
  let work = first
  let leg = from.begin()
  let advancing = false
  try {
    let returned: Returned
    for (;;) {
      returned = await runBody(run, work, leg, session, transaction, staged)
      if (returned.type !== 'advance') break
      const { outcomeUnknown = false } = work
      leg = leg.reach(work.phase.name, returned.stateJson, { outcomeUnknown })
      const { leg: further, phase } = leg.next(settings, transaction)
      leg = further
      if (phase === null || phase.kind === 'foreign') break
      work = localWork(phase)
      run.phase = phase.name
      announce('pawl:phase_started', () => run.phaseMessage(phase.name))
    }
    if (returned.type === 'roll_back' || returned.type === 'nothing') {
      await transaction.rollBack()
      const directive = returned.type === 'nothing' ? null : returned.directive
      return { type: 'rolled_back', phase: work.phase.name, directive }
    }
    const { effect } = first
    const effects = effect === null ? [] : [insertEffect(run.engine.tables, run.row, effect)]
    const advance = advanceBy(run, work, leg, returned, settings.isolation)
    const last = settings.isolation === 'serializable' ? byIndexOnly(advance) : [advance]
    const role = remembers ? [TAKE_ROLE_AGAIN] : []
    const flushed = leg.advance.declares === null ? [] : [WAIT_FOR_DISK]
    advancing = true
    const plans = run.engine.preparedStatements && spread.inPartitions ? [KEEP_PLANS] : []
    const statements = [...role, ...flushed, ...plans, ...staged, ...effects, ...last]
    return await commit(run, leg, transaction, returned, statements)
  } catch (error) {
    // What a phase hands over with `write` fails when something else is sent, maybe by a later phase.
    const phase = transaction.failedWriteOf ?? work.phase.name
    if (transaction.failedWriteOf !== null) advancing = false
    await transaction.rollBack()
    // Somebody has distributed the tables since we looked: what marks the phase's transaction did not reach the other server.
    const hasMoved =
      advancing && !begunOverServers && isInAnotherTransaction(error) && isOfAnotherServer(error)
    if (hasMoved && !transaction.endedEarly) {
      spread.doubt()
      return { type: 'conflict', phase, error }
    }
    // The phase may have left rows behind, and must not run again by itself.
    if (transaction.endedEarly || (advancing && isInAnotherTransaction(error)))
      return stuckBy(run, phase, 'transaction_ended', endedByUser(phase))
    // By then the user's part has returned, so none of their functions sees this.
    if (advancing && advanceFoundNoRow(error)) throw new FencedOff()
    const lacksRight = advancing && isMissingRight(error)
    if (lacksRight && !remembers) {
      rememberRole(settings)
      return { type: 'conflict', phase, error }
    }
    // A body may have hidden the error that doomed its transaction behind one of its own.
    const met = classifyError(transaction.firstError) === 'conflict' ? transaction.firstError : error
    if (classifyError(met) === 'conflict') return { type: 'conflict', phase, error: met }
    return lacksRight ? { type: 'lacks_right', error } : failedBy(run, phase, error)
  }
}

/** What is known of a call stays known, whatever made its transaction, or one before it, fail. */
function failedBy(run: Run, phase: string, error: unknown): StepResult {
  if (isKeyWentBack(error)) return stuckBy(run, phase, 'unknown_outcome', error)
  return failureBy(phase, error, { intent: run.row.intent })
}

function stuckBy({ row }: Run, phase: string, reason: StuckReason, error: unknown): StepResult {
  return { type: 'stuck', phase, reason, intent: row.intent, error }
}

type Onward = Extract<Returned, { type: 'advance' | 'finish' }>

/** Writes the advance and commits it, in one round trip: if the advance fails, COMMIT is not executed. */
async function commit(
  run: Run,
  leg: Leg,
  transaction: SessionTransaction,
  returned: Onward,
  statements: readonly Bound[],
): Promise<TryEnd> {
  const sentAt = performance.now()
  const committed = leg.reached
  try {
    const results = await transaction.commit(statements)
    const [advanced, ended] = results.slice(-2)
    // A transaction that failed unnoticed answers COMMIT with ROLLBACK, and no error.
    if (ended?.command !== 'COMMIT') throw abortedTransaction(transaction, `phase '${run.phase}'`)
    const read = readAdvanced(advanced?.rows[0] ?? {})
    const { nowMs, expiresMs } = read
    if (returned.type === 'finish')
      return { type: 'finished', response: returned.response, expiresMs: expiresMs ?? nowMs, committed }
    run.advanced(leg.advance, read, sentAt)
    return { type: 'advanced', committed }
  } catch (error) {
    if (transaction.mayHaveCommitted)
      return { type: 'commit_unknown', error, declares: leg.advance.declares?.phase ?? null }
    throw error
  }
}

function advanceBy(run: Run, work: Work, leg: Leg, returned: Onward, isolation: IsolationLevel): Bound {
  const { settings, tables, limits } = run.engine
  const { definition, hold } = run
  if (returned.type === 'advance') return advanceKey(tables, hold, leg.advance)
  const { retentionMs, wipe } = settings.pipeline(definition)
  const { stateJson, firstPhase, carriedCallOf } = leg.advance
  const { outcomeUnknown = false } = work
  const { trail } = leg.reach('finished', leg.stateJson, { outcomeUnknown })
  const { response } = returned
  const ending = { response, retentionMs: longEnough(run, trail, retentionMs), wipe }
  // An engine without limits leaves the count as it is: its role may have no right to change it.
  const isCounted = run.row.storedBytes > 0 && limits.areOn(definition)
  const left = { ...ending, stateJson: stateJson ?? run.row.stateJson }
  const counts = isCounted ? countedKey(run.row, left, isolation) : null
  return finishKey(tables, hold, { ...ending, stateJson, trail, firstPhase, carriedCallOf, counts })
}

/** A call of unknown outcome leaves no effect: nothing but the key itself then keeps a retry from making it again. */
function longEnough({ engine }: Run, trail: readonly TrailEntry[], retentionMs: number): number {
  const isInDoubt = !engine.runsAgain && trail.some(({ outcomeUnknown }) => outcomeUnknown)
  return isInDoubt ? Math.max(retentionMs, DEFAULT_EFFECT_RETENTION_MS) : retentionMs
}

/** Finds out what became of a COMMIT that got no answer, by raising the fence: after that, it can no longer land. */
async function settleCommit(
  run: Run,
  work: Work,
  { error, declares }: Extract<TryEnd, { type: 'commit_unknown' }>,
): Promise<StepResult | Conflict> {
  const sentAt = performance.now()
  const raised = await raiseFenceOf(run, error)
  const phase = work.phase.name
  if (raised === 'unreachable') {
    run.declaresInDoubt = declares
    return failedBy(run, phase, error)
  }
  const before = run.row.trail.length
  const moved = applyRaised(run, raised, sentAt)
  // That declaration is ours, and nothing was called: it is made again, as if it had not been.
  if (moved === 'forward' && declares !== null && raised.intent?.phase === declares)
    run.update({ ...raised, intent: null }, sentAt)
  const committed = raised.trail.slice(before)
  announce('pawl:commit_settled', () => ({
    ...run.phaseMessage(run.phase),
    committed: moved === 'forward',
  }))
  if (raised.response !== null) {
    return {
      type: 'finished',
      response: raised.response,
      expiresMs: raised.expiresMs ?? raised.nowMs,
      committed,
    }
  }
  if (moved === 'back') return { type: 'again' }
  return moved === 'forward' ? { type: 'advanced', committed } : { type: 'conflict', phase, error }
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
