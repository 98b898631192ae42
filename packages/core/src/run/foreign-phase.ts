import { announce } from '../announce/announce.js'
import { isConnectionLost, PawlError } from '../errors.js'
import { Absent, type ForeignPhase, Found } from '../pipeline/phase.js'
import { declareCall } from '../storage/keys/declare-call.js'
import { applyRaised } from './apply-raised.js'
import { afterUnknown, callFailed } from './call-failed.js'
import type { Intent } from '../storage/keys/key-row.js'
import { callProvider } from './call-provider.js'
import { callResult } from './call-result.js'
import { heldOrThrow } from './fenced-off.js'
import { giveBackAfterCall } from './give-back-after-call.js'
import type { Step } from './next-step.js'
import { raiseFenceOf } from './raise-fence-of.js'
import type { Run } from './run.js'
import { settleResult } from './settle-result.js'
import { runTransaction } from './phase-transaction.js'
import { failure, failureAsked, failureBy, failureByCall, type StepResult } from './step-result.js'

type ForeignStep = Extract<Step, { do: 'call' | 'settle' | 'reconcile' | 'go_on' | 'mark_stuck' }>

/** One step of a foreign phase: call (or ask, or neither), then settle. */
export async function runForeignStep(run: Run, step: ForeignStep): Promise<StepResult> {
  const { phase } = step
  switch (step.do) {
    case 'mark_stuck':
      return {
        type: 'stuck',
        phase: phase.name,
        reason: step.reason,
        intent: callInDoubt(run, phase),
        error: null,
      }
    case 'settle':
      // The intent stays as it is stored: whether the provider returned the result or a person said so stays known.
      return settleResult(run, phase, { ...callResult(phase, step.result), intent: run.row.intent }, null)
    case 'go_on':
      return goOn(run, phase, step.run)
    case 'reconcile':
      return reconcile(run, phase, step.absentCountsInMs)
    case 'call':
      return step.declareFirst || mayStillBeRefused(run) ? declareAndCall(run, phase) : call(run, phase)
  }
}

/**
 * Whether the call begins a request that `authorize` could still refuse. It is declared then even if its provider
 * deduplicates, or nobody would know later that there may be a charge to settle.
 */
function mayStillBeRefused({ definition, row }: Run): boolean {
  return definition.authorize !== null && row.recoveryPoint === 'started' && row.intent === null
}

async function declareAndCall(run: Run, phase: ForeignPhase): Promise<StepResult> {
  const { intent } = run.row
  const failed = await declare(run, phase)
  if (failed !== null) return failed
  if (!isTooLate(run)) return call(run, phase)
  // We were frozen in the meantime, and others may have acted on that declaration. Nothing was sent, so it is declared
  // again, or refused.
  run.update({ ...run.row, nowMs: run.nowMs(), intent }, run.leasedAt)
  if (run.renewedAt !== run.row.recoveryPoint) {
    run.renewedAt = run.row.recoveryPoint
    return { type: 'again' }
  }
  const slow = new PawlError(
    'PAWL_LEASE_LOST',
    `The process froze twice before the call of phase '${phase.name}'.`,
  )
  return failure(phase.name, 'transient_error', slow, { intent })
}

/** Goes on without knowing whether the call was executed, as the phase says, in one transaction. */
async function goOn(
  run: Run,
  phase: ForeignPhase,
  whenUnknown: NonNullable<ForeignPhase['whenUnknown']>,
): Promise<StepResult> {
  const end = await runTransaction(run, {
    phase,
    by: 'phase',
    body: whenUnknown,
    effect: null,
    outcomeUnknown: true,
    beforeBegin: null,
  })
  if (end.type === 'rolled_back') return failureAsked(end.phase, end.directive, { intent: run.row.intent })
  if (end.type === 'advanced' || end.type === 'finished') {
    run.goneOnFrom.add(phase.name)
    announce('pawl:outcome_unknown', () => ({ ...run.phaseMessage(phase.name), error: run.callError }))
  }
  return end
}

/** What a person has to find out: which call may have been made. A keyed one was not declared. */
function callInDoubt(run: Run, phase: ForeignPhase): Intent {
  const { intent } = run.row
  if (intent?.kind === 'calling' && intent.phase === phase.name) return intent
  return { kind: 'calling', phase: phase.name, deadlineMs: run.nowMs() }
}

/** Whether it is too late to send a declared call: its deadline has passed, or its lease may be over. */
function isTooLate(run: Run): boolean {
  return run.leaseIsStale || run.leaseIsOver || run.callEndsAt <= performance.now()
}

/** Declares durably that the call is about to be made. Returns null once that is done. */
async function declare(run: Run, phase: ForeignPhase): Promise<StepResult | null> {
  const { engine } = run
  const { callTimeoutMs: timeoutMs, leaseMs } = engine.settings.phase(run.definition, phase.name)
  const before = run.takeDeclared(phase.name, timeoutMs)
  if (before !== null) {
    useDeclaration(run, phase, before.intent, before.sentAt, run.leasedAt)
    return null
  }
  const sentAt = performance.now()
  let answer: Intent | null
  try {
    answer = await engine.sessions.with(phase.name, (session) =>
      declareCall({ session, tables: engine.tables }, run.hold, {
        phase: phase.name,
        timeoutMs,
        leaseMs,
      }),
    )
  } catch (error) {
    return declareAgain(run, phase, error)
  }
  useDeclaration(run, phase, heldOrThrow(answer), sentAt, sentAt)
  return null
}

/** From here on, the call may be made. `sentAt`: before the declaration was sent, so that the call ends no later than declared. */
function useDeclaration(
  run: Run,
  phase: ForeignPhase,
  declared: Intent,
  sentAt: number,
  leasedAt: number,
): void {
  const { callTimeoutMs: timeoutMs } = run.engine.settings.phase(run.definition, phase.name)
  const server = declared.kind === 'calling' ? (declared.server ?? null) : run.row.server
  run.update({ ...run.row, nowMs: run.nowMs(), intent: declared, server }, leasedAt)
  run.callEndsAt = sentAt + timeoutMs
  if (phase.guarantee === 'queryable' && declared.kind === 'calling') {
    run.engine.quietCalls.watch(run.row.id, declared.deadlineMs, timeoutMs + phase.quietForMs)
  }
}

/** The answer to the declaration was lost: find out what happened, and declare again, since nothing has been called yet. */
async function declareAgain(run: Run, phase: ForeignPhase, error: unknown): Promise<StepResult> {
  if (!isConnectionLost(error)) {
    return failureBy(phase.name, error, { intent: run.row.intent })
  }
  const sentAt = performance.now()
  const raised = await raiseFenceOf(run, error)
  if (raised === 'unreachable')
    return failure(phase.name, 'transient_error', error, { intent: run.row.intent })
  applyRaised(run, raised, sentAt)
  return { type: 'again' }
}

function call(run: Run, phase: ForeignPhase): Promise<StepResult> {
  return callProvider(run, phase, 'call', async (end, lease) => {
    switch (end.type) {
      case 'returned':
        run.engine.quietCalls.forget(run.row.id)
        return settleResult(run, phase, callResult(phase, end.value), lease)
      case 'threw':
        return callFailed(run, phase, end.error, lease)
      case 'unsettled': {
        giveBackAfterCall(run, phase, end.pending)
        const { intent } = run.row
        return afterUnknown(run, phase, failureBy(phase.name, end.error, { intent, keepLease: true }))
      }
    }
  })
}

async function reconcile(
  run: Run,
  phase: ForeignPhase,
  absentCountsInMs: number | null,
): Promise<StepResult> {
  const { intent, leftMs } = timeLeft(run, phase, absentCountsInMs)
  const found = await callProvider(run, phase, 'reconcile', async (end, lease) => {
    if (end.type === 'returned' && end.value instanceof Found) {
      run.engine.quietCalls.forget(run.row.id)
      return settleResult(run, phase, callResult(phase, end.value.result), lease)
    }
    await lease.end()
    if (end.type !== 'returned') return failureByCall(phase.name, end.error, { intent })
    if (end.value instanceof Absent) return 'absent'
    const error = new PawlError(
      'PAWL_INVALID_RESULT',
      `reconcile of phase '${phase.name}' has to return found(result) or absent().`,
    )
    return failure(phase.name, 'unknown_error', error, { intent })
  })
  if (found !== 'absent') return found
  if (leftMs > 0) return failure(phase.name, 'outcome_pending', null, { intent, afterMs: leftMs })
  if (phase.guarantee === 'keyed')
    return mayStillBeRefused(run) ? declareAndCall(run, phase) : call(run, phase)
  run.engine.quietCalls.forget(run.row.id)
  run.update({ ...run.row, nowMs: run.nowMs(), intent: null }, run.leasedAt)
  return { type: 'again' }
}

/**
 * Returns how long "absent" does not count yet, and the declaration to keep. A declaration made by another server's clock
 * is dated again by this one's, as if the call were made now: the two clocks cannot be compared.
 */
function timeLeft(
  run: Run,
  phase: ForeignPhase,
  absentCountsInMs: number | null,
): { readonly intent: Intent | null; readonly leftMs: number } {
  const { row, engine } = run
  const { intent, id, server } = row
  if (intent?.kind !== 'calling') return { intent, leftMs: absentCountsInMs ?? 0 }
  if (absentCountsInMs !== null) {
    return { intent, leftMs: engine.quietCalls.leftMs(id, intent.deadlineMs, absentCountsInMs) }
  }
  const { callTimeoutMs } = engine.settings.phase(run.definition, phase.name)
  const deadlineMs = Math.floor(run.nowMs()) + callTimeoutMs
  const leftMs = callTimeoutMs + phase.quietForMs
  engine.quietCalls.watch(id, deadlineMs, leftMs)
  return { intent: { ...intent, deadlineMs, ...(server !== null && { server }) }, leftMs }
}
