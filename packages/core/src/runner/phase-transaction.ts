import { setTimeout as delay } from 'node:timers/promises'
import { announce } from '../announce/announce.js'
import { abortedTransaction, rollBack } from '../driver/kysely-driver.js'
import type { Session } from '../driver/session.js'
import { PawlError } from '../errors.js'
import { ABORT_GRACE_MS, CONNECTION_DEADLINE_SLACK_MS } from '../limits.js'
import type { Respond, RetryLater, StoredResponse } from '../pipeline/directive.js'
import type { AnyPhase } from '../pipeline/phase.js'
import type { ResolvedPhaseSettings } from '../pipeline/settings.js'
import { advanceKey, type Effect, finishKey } from '../storage/advance-statements.js'
import type { Store } from '../storage/statement.js'
import { pauseBeforeRetry } from './back-off.js'
import { classifyError } from './classify-error.js'
import { interpretReturn, type Returned, type ReturnedBy } from './interpret-return.js'
import { raiseFenceOf } from './raise-fence.js'
import type { Run } from './run.js'
import { stageIn } from './stage-job.js'

/** The user's part of a transaction, and what goes with it. */
export interface Work {
  readonly phase: AnyPhase
  readonly by: ReturnedBy
  /** Gets `input`, `state`, `scope`, `keyId`, `tx` and `stage`. */
  readonly body: (context: never) => unknown
  /** Recorded with the advance, in the same statement. */
  readonly effect: Effect | null
  /** Awaited once the connection is there and before BEGIN. 'lost': another holder has the key. */
  readonly beforeBegin: (() => Promise<'kept' | 'lost'>) | null
}

/** How a phase's transaction ended. All but the first two left nothing behind. */
export type TransactionEnd =
  | { readonly type: 'advanced' }
  | { readonly type: 'finished'; readonly response: StoredResponse; readonly expiresMs: number }
  | { readonly type: 'rolled_back'; readonly directive: Respond | RetryLater | null }
  | { readonly type: 'threw'; readonly error: unknown }
  | { readonly type: 'fenced_off' }

type TryEnd =
  | TransactionEnd
  /** It did not commit; another try may. */
  | { readonly type: 'conflict'; readonly error: unknown }
  /** COMMIT was sent and not answered. */
  | { readonly type: 'commit_unknown'; readonly error: unknown }

/**
 * Runs the user's part and the fenced advance in one transaction, and tries again where that is safe: nothing but the
 * transaction is repeated, never a call.
 */
export async function runTransaction(run: Run, work: Work): Promise<TransactionEnd> {
  const settings = run.parts.env.settings.phase(run.definition, work.phase.name)
  for (let attempt = 0; ; attempt++) {
    const tried = await tryTransaction(run, work, settings)
    const end = tried.type === 'commit_unknown' ? await settleCommit(run, work, tried.error) : tried
    if (end.type !== 'conflict') return end
    const { error } = end
    if (attempt >= settings.transactionRetries || run.parts.stopping.aborted) return { type: 'threw', error }
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
    session = await run.parts.env.sessions.acquire(work.phase.name)
  } catch (error) {
    // A server that is coming back may take the next connection; an exhausted pool has been waited for long enough.
    const refused = error instanceof PawlError && error.cause !== undefined
    return refused ? { type: 'conflict', error } : { type: 'threw', error }
  }
  try {
    if (work.beforeBegin !== null && (await work.beforeBegin()) === 'lost') return { type: 'fenced_off' }
    session.setDeadline(settings.statementTimeoutMs + CONNECTION_DEADLINE_SLACK_MS)
    return await inTransaction(run, work, settings, { session, tables: run.parts.env.tables })
  } finally {
    session.release()
  }
}

async function inTransaction(
  run: Run,
  work: Work,
  settings: ResolvedPhaseSettings,
  store: Store,
): Promise<TryEnd> {
  const { session } = store
  try {
    await session.run(beginStatement(settings))
    const returned = await runBody(run, work, store)
    if (returned.type === 'roll_back' || returned.type === 'nothing') {
      await rollBack(session)
      return { type: 'rolled_back', directive: returned.type === 'nothing' ? null : returned.directive }
    }
    if (settings.isolation === 'serializable') await session.run(INDEX_SCANS_ONLY)
    const advance = await advanceRow(run, work, store, returned)
    if (advance === null) {
      await rollBack(session)
      return { type: 'fenced_off' }
    }
    return await commit(session, work.phase.name, advance)
  } catch (error) {
    // A body may have hidden the error that doomed its transaction behind one of its own.
    const met = classifyError(session.firstError) === 'conflict' ? session.firstError : error
    await rollBack(session)
    return classifyError(met) === 'conflict' ? { type: 'conflict', error: met } : { type: 'threw', error }
  }
}

async function runBody(run: Run, work: Work, store: Store): Promise<Returned> {
  const { parts, row, definition } = run
  const phase = work.phase.name
  const { tx, connection } = parts.kysely.onSession(store.session, phase)
  const stage = stageIn(run, store, { tx, connection }, phase)
  const context = { ...run.phaseContext(), tx, stage }
  let value: unknown
  try {
    const body = parts.strict.inTransaction(phase, async () => work.body(context as never))
    value = await Promise.race([body, abandoned(store.session, phase)])
  } finally {
    connection.close()
  }
  connection.assertNotEnded()
  // Asked before the advance, which would otherwise fail with an error that tells the user nothing.
  if (store.session.doomed) throw abortedTransaction(store.session, `phase '${phase}'`)
  const at = { pipeline: definition.name, phase, stateJson: row.stateJson, caps: parts.env.caps }
  return interpretReturn(value, work.by, at)
}

/**
 * Rejects if the body goes on although its connection is gone: it waits for something that may never come, and would
 * keep a place of the pool for as long. A body that merely has to notice gets the time to.
 */
async function abandoned(session: Session, phase: string): Promise<never> {
  await session.whenLost
  await delay(ABORT_GRACE_MS)
  throw new PawlError(
    'PAWL_PHASE_TIMEOUT',
    `Phase '${phase}' did not return before its transaction was ended. Do nothing in a phase but queries through tx.`,
  )
}

/** Writes the advance; gives what to do once it has committed, or null if we were fenced off. */
async function advanceRow(
  run: Run,
  work: Work,
  store: Store,
  returned: Extract<Returned, { type: 'advance' | 'finish' }>,
): Promise<(() => TransactionEnd) | null> {
  const { settings } = run.parts.env
  const { row, definition } = run
  const sentAt = performance.now()
  if (returned.type === 'finish') {
    const { retentionMs } = settings.pipeline(definition)
    const finished = await finishKey(
      store,
      run.hold,
      row.recoveryPoint,
      returned.response,
      retentionMs,
      work.effect,
    )
    if (finished === null) return null
    return () => ({
      type: 'finished',
      response: returned.response,
      expiresMs: finished.expiresMs ?? finished.nowMs,
    })
  }
  const point = work.phase.name
  const { stateJson } = returned
  const to = { point, stateJson, leaseMs: settings.leaseMsAt(definition, point) }
  const advanced = await advanceKey(store, run.hold, row.recoveryPoint, to, work.effect)
  if (advanced === null) return null
  return () => {
    run.advanced(point, stateJson, advanced.nowMs, sentAt, false)
    return { type: 'advanced' }
  }
}

async function commit(session: Session, phase: string, onCommitted: () => TransactionEnd): Promise<TryEnd> {
  try {
    const { command } = await session.run(COMMIT)
    // A transaction that failed unnoticed answers COMMIT with ROLLBACK, and no error.
    if (command !== 'COMMIT') throw abortedTransaction(session, `phase '${phase}'`)
    return onCommitted()
  } catch (error) {
    if (error instanceof PawlError && error.code === 'PAWL_CONNECTION_LOST')
      return { type: 'commit_unknown', error }
    throw error
  }
}

/** Learns what became of a COMMIT that got no answer, by raising the fence: after that, it can no longer land. */
async function settleCommit(
  run: Run,
  work: Work,
  error: unknown,
): Promise<Exclude<TryEnd, { type: 'commit_unknown' }>> {
  const before = run.row
  const sentAt = performance.now()
  const raised = await raiseFenceOf(run, error)
  if (raised === 'fenced_off') return { type: 'fenced_off' }
  if (raised === 'unreachable') return { type: 'threw', error }
  const committed = raised.recoveryPoint !== before.recoveryPoint
  // A result that is only in memory stays known: the call must not be repeated.
  run.update(committed ? raised : { ...raised, intent: before.intent }, sentAt)
  announce('pawl:commit_settled', () => ({ ...run.phaseMessage(work.phase.name), committed }))
  if (raised.response !== null) {
    return { type: 'finished', response: raised.response, expiresMs: raised.expiresMs ?? raised.nowMs }
  }
  return committed ? { type: 'advanced' } : { type: 'conflict', error }
}

const COMMIT = { name: 'commit', text: 'COMMIT' }

/**
 * Under SERIALIZABLE, a sequential scan of a small key table makes phases of unrelated keys abort each other. This
 * comes after the user's statements, whose plans it must not change.
 */
const INDEX_SCANS_ONLY = { name: 'index_scans_only', text: 'SET LOCAL enable_seqscan = off' }

/** All in one message: one round trip. The time-outs are the server's, since only those really end a statement. */
function beginStatement(settings: ResolvedPhaseSettings): { name: string; text: string } {
  const { isolation, statementTimeoutMs, lockTimeoutMs, idleTimeoutMs } = settings
  return {
    name: 'begin',
    text:
      `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}; SET LOCAL statement_timeout = ${statementTimeoutMs}; ` +
      `SET LOCAL lock_timeout = ${lockTimeoutMs}; SET LOCAL idle_in_transaction_session_timeout = ${idleTimeoutMs}`,
  }
}
