import { announce } from '../announce/announce.js'
import { PawlError } from '../errors.js'
import { CLOSE_ABORT_GRACE_MS, RETRIED_FOR_LONG_MS, SAVE_RESULT_MS } from '../limits.js'
import type { Outcome, StuckReason } from '../pipeline/outcome.js'
import { forgetKey } from '../storage/keys/forget-key.js'
import { markKeyStuck } from '../storage/keys/mark-key-stuck.js'
import { giveBackKey } from '../storage/keys/give-back-key.js'
import { ageMs, type Intent, type KeyRow } from '../storage/keys/key-row.js'
import { findSameKey } from '../storage/keys/find-key.js'
import type { Store } from '../storage/statement.js'
import { callKnownOf } from './apply-raised.js'
import { backOffMs, pauseBeforeRetry } from './back-off.js'
import { classifyError } from './classify-error.js'
import { FencedOff } from './fenced-off.js'
import { keyWentBack } from './key-went-back.js'
import { recordError } from './record-error.js'
import { inFlightOutcome, replayedOutcome, stuckOutcome } from './row-outcome.js'
import type { Run } from './run.js'
import { type Failure, failure } from './step-result.js'

/** Ends a grant whose phase failed: gives the key back, or marks it stuck at its caps. Never touches a new holder's row. */
export async function giveBack(run: Run, failed: Failure): Promise<Outcome> {
  const stuckBy = capReached(run, failed)
  if (stuckBy !== null) {
    announceFailure(run, failed)
    return markStuck(run, stuckBy, failed.intent, failed.error)
  }

  const { row } = run
  const { isAttempt } = failed
  const closing = failed.reason === 'closing'
  const failures = isAttempt ? row.attempts : row.retries
  const runAfterMs = closing ? 0 : (failed.afterMs ?? backOffMs(failures))
  const losesMore = failed.intent?.kind === 'called' || failed.raiseEpoch || run.hasUnusedDeclaration
  const insistMs = losesMore ? SAVE_RESULT_MS : 0
  const isBack = await write(
    run,
    (store) =>
      // Only its own requests know it, and nothing of it has committed.
      row.kind === 'atomic'
        ? forgetKey(store, row)
        : giveBackKey(store, run.hold, {
            keepLease: failed.keepLease,
            runAfterMs,
            countsAs: isAttempt ? 'attempt' : closing ? 'nothing' : 'retry',
            raiseEpoch: failed.raiseEpoch,
            intent: failed.intent,
            lastError: failed.error == null ? null : recordError(failed.error, run.engine.redact),
          }),
    insistMs,
  )
  if (isBack === false && (await holdsByRaise(run, insistMs))) return giveBack(run, failed)
  // Announced only now: whoever hears it may ask for the key at once.
  announceFailure(run, failed)
  if (isBack === false) throw new FencedOff('give_back')
  if (isBack === true && !closing) announceIfLong(run, failed)
  return {
    type: 'retry_later',
    keyId: row.id,
    reason: failed.reason,
    // If the lease could not be given back, nobody gets the key before it ends.
    retryAfterMs: failed.keepLease || isBack === null ? Math.max(runAfterMs, run.leaseMs) : runAfterMs,
    recoveryPoint: row.recoveryPoint,
    error: failed.error,
    response: failed.response,
  }
}

export function announceFailure(run: Run, { phase, error, reason }: Failure): void {
  announce('pawl:phase_failed', () => ({ ...run.phaseMessage(phase), error, reason }))
}

/** Retries that are fine one by one may hide that none of them can ever succeed. */
function announceIfLong(run: Run, { phase, error, reason }: Failure): void {
  const sinceMs = Math.round(ageMs(run.row, run.nowMs()))
  if (sinceMs < RETRIED_FOR_LONG_MS) return
  const stuckInMs = run.engine.settings.pipeline(run.definition).maxAgeMs - sinceMs
  announce('pawl:retried_for_long', () => ({
    ...run.phaseMessage(phase),
    error,
    reason,
    sinceMs,
    stuckInMs,
  }))
}

/** Ends a grant that no automatic step may follow: a person has to look at the key. */
export async function markStuck(
  run: Run,
  reason: StuckReason,
  intent: Intent | null,
  error: unknown,
): Promise<Outcome> {
  const { row } = run
  const lastError = error == null ? row.lastError : recordError(error, run.engine.redact)
  const marked = await write(
    run,
    async (store) =>
      (await markKeyStuck(store, run.hold, { reason, intent, lastError })) || isMarked(run, store),
    SAVE_RESULT_MS,
  )
  if (marked === false && (await holdsByRaise(run, SAVE_RESULT_MS)))
    return markStuck(run, reason, intent, error)
  if (marked === false) throw new FencedOff()
  if (marked === null) {
    // The store is unreachable: the next attempt finds the same reason and marks the key then.
    const { id: keyId, recoveryPoint } = row
    return {
      type: 'retry_later',
      keyId,
      reason: 'transient_error',
      retryAfterMs: run.leaseMs,
      recoveryPoint,
      error,
      response: null,
    }
  }
  announce('pawl:stuck', () => ({ ...run.grantMessage(), reason, lastError }))
  return stuckOutcome(row, reason, lastError)
}

/** Whether we made it stuck: the answer to an earlier try of ours may have been lost. */
async function isMarked({ hold, row: before }: Run, store: Store): Promise<boolean> {
  const row = await findSameKey(store, before)
  return row?.status === 'stuck' && row.fence === hold.fence && row.holder === hold.holder
}

/**
 * Whether the key is ours under the holder of a raise whose answer was lost, and has not moved. If so, we hold it by that
 * from now on, and what we could not write before can be written.
 */
async function holdsByRaise(run: Run, insistMs: number): Promise<boolean> {
  const { raisingAs, row: before, leasedAt } = run
  if (raisingAs === null) return false
  const row = await write(run, (store) => findSameKey(store, before), insistMs)
  if (row?.holder !== raisingAs || row.sealed !== null || row.recoveryPoint !== before.recoveryPoint)
    return false
  run.update({ ...row, intent: before.intent }, leasedAt)
  return true
}

/**
 * Ends an execution that found the row not as it had left it: it writes nothing more, and returns what it sees. One
 * exception: the key is still ours and has gone back behind a call that must not be repeated. Nobody else knows of that
 * call.
 */
export async function whatOthersMadeOfIt(run: Run, { during }: FencedOff): Promise<Outcome> {
  const read = await write(run, async (store) => ({ row: await findSameKey(store, run.row) }))
  // What cannot be read must not be acted on.
  const row = read?.row?.sealed === null ? read.row : null
  const isStillOurs = row !== null && isOurs(run, row)
  // A write of ours with an unknown outcome may have landed, the COMMIT or the raise: then nobody has taken the key over.
  const isInDoubt = run.raisingAs !== null
  const isByUs = isStillOurs && (during === 'give_back' || isInDoubt)
  const isFencedOff = read === null ? !isInDoubt : !isByUs
  if (isFencedOff) announce('pawl:fenced_off', () => run.phaseMessage(run.phase))
  if (isStillOurs && hasDeclaredInVain(run, row)) return giveBackUncalled(run, row)
  const call = isStillOurs && row.status === 'running' ? callKnownOf(run, row) : null
  if (row === null || call === null) return outcomeOf(row, isFencedOff)
  run.update(row, run.leasedAt)
  return markStuck(run, 'unknown_outcome', call, keyWentBack(row.recoveryPoint, call))
}

/** Whether the COMMIT that we gave up on has landed after all, and says that a call was about to be made. */
function hasDeclaredInVain({ declaresInDoubt }: Run, { status, intent }: KeyRow): boolean {
  return (
    declaresInDoubt !== null &&
    status === 'running' &&
    intent?.kind === 'calling' &&
    intent.phase === declaresInDoubt
  )
}

function giveBackUncalled(run: Run, row: KeyRow): Promise<Outcome> {
  run.declaresInDoubt = null
  run.update({ ...row, intent: null }, run.leasedAt)
  const error = new PawlError('PAWL_CONNECTION_LOST', 'A COMMIT got its answer too late.')
  return giveBack(run, failure(run.phase, 'transient_error', error))
}

function isOurs({ hold, raisingAs }: Run, { fence, holder }: KeyRow): boolean {
  return (fence === hold.fence && holder === hold.holder) || holder === raisingAs
}

function outcomeOf(row: KeyRow | null, isFencedOff: boolean): Outcome {
  if (row?.response != null) return replayedOutcome(row, row.response)
  if (row?.stuckReason != null) return stuckOutcome(row, row.stuckReason, row.lastError)
  return inFlightOutcome(row?.leaseUntilMs == null ? null : row.leaseUntilMs - row.nowMs, isFencedOff)
}

/** Crashes, unknown errors and refusals of the provider are capped by attempts, everything else by age. */
function capReached(run: Run, failed: Failure): StuckReason | null {
  const { maxAttempts, maxAgeMs } = run.engine.settings.pipeline(run.definition)
  if (failed.reason === 'closing' || run.row.kind === 'atomic') return null
  if (failed.isAttempt && run.row.attempts >= maxAttempts) return 'attempts_exhausted'
  return ageMs(run.row, run.nowMs()) >= maxAgeMs ? 'too_old' : null
}

/**
 * Returns null if the store did not answer. Then the lease runs out by itself, and nothing is lost but time. `forMs`: how
 * long to insist when more than time would be lost.
 */
async function write<T>(run: Run, statement: (store: Store) => Promise<T>, forMs = 0): Promise<T | null> {
  const { sessions, tables } = run.engine
  const startedAt = performance.now()
  const giveUpAt = startedAt + forMs
  for (let attempt = 0; ; attempt++) {
    try {
      return await sessions.with('give_back', (session) => statement({ session, tables }))
    } catch (error) {
      const mayInsist = performance.now() < giveUpAt && classifyError(error) !== 'unknown'
      if (mayInsist && performance.now() < closingEndsAt(run, startedAt)) {
        await pauseBeforeRetry(attempt)
        continue
      }
      announce('pawl:warning', () => ({
        message: 'a key could not be given back; its lease will run out',
        error,
      }))
      return null
    }
  }
}

/** An engine that closes waits no longer than this. */
function closingEndsAt({ engine }: Run, startedAt: number): number {
  return engine.stopping.aborted ? startedAt + CLOSE_ABORT_GRACE_MS / 2 : Infinity
}
