import { announce } from '../announce/announce.js'
import { disarmPromise } from '../disarm-promise.js'
import { isPawlError, PawlError } from '../errors.js'
import type { KeptLease } from './lease-keeper.js'
import { isTransientStatus, Respond, RetryLater } from '../pipeline/directive.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import { readMember } from '../read-error.js'
import type { Intent } from '../storage/keys/key-row.js'
import { isAmbiguous, isRefusal } from './is-ambiguous.js'
import { runTransaction } from './phase-transaction.js'
import type { Run } from './run.js'
import { type Failure, failureAsked, failureByCall, type StepResult } from './step-result.js'

/** Decides what becomes of a call that threw. If the error is one that can be answered, onError is asked. */
export async function callFailed(
  run: Run,
  phase: ForeignPhase,
  error: unknown,
  lease: KeptLease,
): Promise<StepResult> {
  const plain = failureByCall(phase.name, error, { intent: run.row.intent })
  // Pawl's own errors (a time-out, a lost lease, closing) do not say what happened at the provider: onError is not asked.
  if (phase.onError === null || isPawlError(error)) {
    await lease.end()
    return afterUnknown(run, phase, plain)
  }
  const { onError } = phase
  const ambiguous = isAmbiguous(error, isDeclaredAnswer(phase, error))
  const end = await runTransaction(run, {
    phase,
    by: 'onError',
    body: async (context: object) =>
      refuseFinal(await onError(Object.assign(context, { error }) as never), phase, error, ambiguous),
    effect: null,
    beforeBegin: () => lease.end(),
  })
  if (end.type === 'failed') return afterUnknown(run, phase, end)
  if (end.type !== 'rolled_back') return end
  if (end.directive === null) return afterUnknown(run, phase, plain)
  const notExecuted = end.directive instanceof RetryLater && end.directive.notExecuted
  const answered = failureAsked(phase.name, end.directive, {
    intent: notExecuted ? null : run.row.intent,
    raiseEpoch: notExecuted,
    // The same request will be refused again, and somebody has to be told.
    isAttempt: isRefusal(error),
  })
  return notExecuted ? answered : afterUnknown(run, phase, answered)
}

/** What the phase declares about an error. Anything but a plain yes counts as no: a promise would pass for a yes. */
function isDeclaredAnswer({ name, isAnswer }: ForeignPhase, error: unknown): boolean {
  if (isAnswer === null) return false
  try {
    const declared = isAnswer(error as never)
    if (typeof declared === 'boolean') return declared
    disarmPromise(declared)
    throw new PawlError(
      'PAWL_INVALID_RESULT',
      `isAnswer of phase '${name}' has to return true or false synchronously.`,
    )
  } catch (failed) {
    announce('pawl:warning', () => ({
      message: `isAnswer of phase '${name}' failed; the error counts as no answer`,
      error: failed,
    }))
    return false
  }
}

/** An error that leaves open what happened must not become final, whatever onError says. */
function refuseFinal(answer: unknown, phase: ForeignPhase, error: unknown, ambiguous: boolean): unknown {
  if (!ambiguous || !(answer instanceof Respond) || isTransientStatus(answer.response.status)) return answer
  throw new PawlError(
    'PAWL_AMBIGUOUS_RESPONSE',
    `onError of phase '${phase.name}' answered ${answer.response.status} to ${nameOf(error)}, which does not say whether ` +
      'the call was executed. If the provider itself refused it, declare that with isAnswer in the options of the phase, ' +
      "or throw an error that has the provider's 4xx as its status. For everything else, return retryLater(error).",
    { cause: error },
  )
}

function nameOf(error: unknown): string {
  const name = readMember(error, 'name')
  return typeof name === 'string' && /^\w{1,63}$/.test(name) ? `an error '${name}'` : 'an error'
}

/**
 * After a call with an unknown outcome: `at_most_once` never calls again by itself. The key is stuck, or goes on without.
 */
export function afterUnknown(run: Run, phase: ForeignPhase, failed: Failure): StepResult {
  if (phase.guarantee !== 'at_most_once') return failed
  if (phase.whenUnknown !== null) {
    run.callError = failed.error
    run.update({ ...run.row, nowMs: run.nowMs(), intent: endedCall(run) }, run.leasedAt)
    return { type: 'again' }
  }
  return {
    type: 'stuck',
    phase: phase.name,
    reason: 'unknown_outcome',
    intent: failed.keepLease ? run.row.intent : endedCall(run),
    error: failed.error,
  }
}

/** The call is over, whatever came of it: a person who decides need not wait for its deadline. */
function endedCall(run: Run): Intent | null {
  const { intent } = run.row
  return intent?.kind === 'calling'
    ? { ...intent, deadlineMs: Math.min(intent.deadlineMs, run.nowMs()) }
    : intent
}
