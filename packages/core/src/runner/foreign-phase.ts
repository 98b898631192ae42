import { announce } from '../announce/announce.js'
import { PawlError } from '../errors.js'
import { providerKeyOf } from '../key/provider-key.js'
import type { KeptLease } from '../key/lease-keeper.js'
import { isTransientStatus, Respond, RetryLater } from '../pipeline/directive.js'
import type { RetryReason } from '../pipeline/outcome.js'
import { Absent, type ForeignPhase, Found } from '../pipeline/phase.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { Effect } from '../storage/advance-statements.js'
import { declareCall, releaseKey } from '../storage/hold-statements.js'
import type { Intent } from '../storage/key-row.js'
import { callProvider, type Settlement } from './call-provider.js'
import { classifyError } from './classify-error.js'
import type { Step } from './next-step.js'
import { raiseFenceOf, runTransaction } from './phase-transaction.js'
import { recordError, storableText } from './record-error.js'
import type { Run } from './run.js'
import { type Failure, failure, type StepResult } from './step-result.js'

type ForeignStep = Extract<Step, { do: 'call' | 'settle' | 'reconcile' | 'stick' }>

/** One step of a foreign phase: call (or ask, or neither), then settle. */
export async function runForeignStep(run: Run, step: ForeignStep): Promise<StepResult> {
  const { phase } = step
  switch (step.do) {
    case 'stick':
      return { type: 'stuck', phase: phase.name, reason: step.reason, intent: run.row.intent, error: null }
    case 'settle':
      return settleResult(run, phase, keep(phase, step.result), null)
    case 'reconcile':
      return reconcile(run, phase, step.absentCountsInMs)
    case 'call': {
      if (!step.declareFirst) return call(run, phase)
      const { intent } = run.row
      const declared = await declare(run, phase)
      if (declared !== 'declared') return declared
      if (!run.leaseIsStale) return call(run, phase)
      // Frozen meanwhile: others may have acted on that declaration. Nothing was sent, so it is made anew, or refused.
      run.update({ ...run.row, nowMs: run.nowMs(), intent }, run.leasedAt)
      return { type: 'again' }
    }
  }
}

/** Says durably that the call is about to be made. */
async function declare(run: Run, phase: ForeignPhase): Promise<'declared' | StepResult> {
  const { env } = run.parts
  const { callTimeoutMs: timeoutMs, leaseMs } = env.settings.phase(run.definition, phase.name)
  const sentAt = performance.now()
  try {
    const held = await env.sessions.with(phase.name, (session) =>
      declareCall({ session, tables: env.tables }, run.hold, {
        phase: phase.name,
        timeoutMs,
        leaseMs,
        lockTimeoutMs: env.lockTimeoutMs,
      }),
    )
    if (!held) return { type: 'fenced_off', phase: phase.name }
  } catch (error) {
    return declareAgain(run, phase, error)
  }
  const deadlineMs = run.nowMs() + timeoutMs
  run.update(
    { ...run.row, nowMs: run.nowMs(), intent: { kind: 'calling', phase: phase.name, deadlineMs } },
    sentAt,
  )
  return 'declared'
}

/** The answer to the declaration was lost: learn the truth, and declare anew, since nothing was called yet. */
async function declareAgain(run: Run, phase: ForeignPhase, error: unknown): Promise<StepResult> {
  if (!(error instanceof PawlError && error.code === 'PAWL_CONNECTION_LOST')) {
    return failure(phase.name, reasonOf(error), error, { intent: run.row.intent })
  }
  const sentAt = performance.now()
  const raised = await raiseFenceOf(run, error)
  if (raised === 'fenced_off') return { type: 'fenced_off', phase: phase.name }
  if (raised === 'unreachable')
    return failure(phase.name, 'transient_error', error, { intent: run.row.intent })
  run.update({ ...raised, intent: run.row.intent }, sentAt)
  return { type: 'again' }
}

async function call(run: Run, phase: ForeignPhase): Promise<StepResult> {
  const end = await callProvider(run, phase, 'call')
  switch (end.type) {
    case 'fenced_off':
      return { type: 'fenced_off', phase: phase.name }
    case 'returned':
      return settleResult(run, phase, keep(phase, end.value), end.lease)
    case 'threw':
      return callFailed(run, phase, end.error, end.lease)
    case 'unsettled': {
      await end.lease.stop()
      releaseWhenSettled(run, phase, end.pending)
      return afterUnknown(
        run,
        phase,
        failure(phase.name, reasonOf(end.error), end.error, { intent: run.row.intent, keepLease: true }),
      )
    }
  }
}

/** Records a result that is known, with its effect, in one transaction. A failure from here on keeps the result. */
async function settleResult(
  run: Run,
  phase: ForeignPhase,
  result: Result,
  lease: KeptLease | null,
): Promise<StepResult> {
  // Also in memory: whatever happens to the connection, the call is not repeated.
  const { intent } = run.row
  run.update({ ...run.row, nowMs: run.nowMs(), intent: result.intent ?? intent }, run.leasedAt)
  const end = await runTransaction(run, {
    phase,
    by: 'phase',
    body: (context: object) => phase.settle?.({ ...context, result: result.read() } as never),
    effect: effectOf(run, phase, result.read()),
    beforeBegin: lease === null ? null : () => lease.stop(),
  })
  if (end.type !== 'advanced' && end.type !== 'finished') await lease?.stop()
  // A result that cannot be saved leaves what was declared: that the call may have been made.
  const saved = (result.bytes <= run.parts.env.caps.stateBytes ? result.intent : null) ?? intent
  switch (end.type) {
    case 'threw':
      return failure(phase.name, reasonOf(end.error), end.error, { intent: saved })
    case 'rolled_back':
      return asked(phase, end.directive, { intent: saved, raiseEpoch: false })
    case 'fenced_off':
      return { type: 'fenced_off', phase: phase.name }
    default:
      return end
  }
}

async function callFailed(
  run: Run,
  phase: ForeignPhase,
  error: unknown,
  lease: KeptLease,
): Promise<StepResult> {
  // An answer that cannot be parsed says as little as none.
  const ambiguous = classifyError(error) !== 'unknown' || error instanceof SyntaxError
  const plain = failure(phase.name, reasonOf(error), error, { intent: run.row.intent })
  // Errors of Pawl (a time-out, a lost lease, closing) say nothing of what happened there: not onError's to answer.
  if (phase.onError === null || error instanceof PawlError) {
    return (await lease.stop()) === 'lost'
      ? { type: 'fenced_off', phase: phase.name }
      : afterUnknown(run, phase, plain)
  }
  const { onError } = phase
  const end = await runTransaction(run, {
    phase,
    by: 'onError',
    body: async (context: object) =>
      refuseFinal(await onError({ ...context, error } as never), phase, error, ambiguous),
    effect: null,
    beforeBegin: () => lease.stop(),
  })
  if (end.type !== 'finished') await lease.stop()
  switch (end.type) {
    case 'fenced_off':
      return { type: 'fenced_off', phase: phase.name }
    case 'threw':
      return afterUnknown(
        run,
        phase,
        failure(phase.name, reasonOf(end.error), end.error, { intent: run.row.intent }),
      )
    case 'rolled_back': {
      if (end.directive === null) return afterUnknown(run, phase, plain)
      const notExecuted = end.directive instanceof RetryLater && end.directive.notExecuted
      const answered = asked(phase, end.directive, {
        intent: notExecuted ? null : run.row.intent,
        raiseEpoch: notExecuted,
      })
      return notExecuted ? answered : afterUnknown(run, phase, answered)
    }
    default:
      return end
  }
}

/** An error that leaves open what happened must not become final, whatever onError says. */
function refuseFinal(answer: unknown, phase: ForeignPhase, error: unknown, ambiguous: boolean): unknown {
  if (!ambiguous || !(answer instanceof Respond) || isTransientStatus(answer.response.status)) return answer
  throw new PawlError(
    'PAWL_AMBIGUOUS_RESPONSE',
    `onError of phase '${phase.name}' answered ${answer.response.status} to an error that does not say whether the call ` +
      'was executed. Return retryLater(error) for time-outs, broken connections, 429 and 5xx.',
    { cause: error },
  )
}

/** After a call with an unknown outcome: `at_most_once` never calls again by itself. */
function afterUnknown(run: Run, phase: ForeignPhase, failed: Failure): StepResult {
  if (phase.guarantee !== 'at_most_once') return failed
  return {
    type: 'stuck',
    phase: phase.name,
    reason: 'unknown_outcome',
    intent: run.row.intent,
    error: failed.error,
  }
}

async function reconcile(run: Run, phase: ForeignPhase, absentCountsInMs: number): Promise<StepResult> {
  const end = await callProvider(run, phase, 'reconcile')
  if (end.type === 'fenced_off') return { type: 'fenced_off', phase: phase.name }
  const intent = run.row.intent
  if (end.type === 'returned' && end.value instanceof Found) {
    return settleResult(run, phase, keep(phase, end.value.result), end.lease)
  }
  if ((await end.lease.stop()) === 'lost') return { type: 'fenced_off', phase: phase.name }
  if (end.type !== 'returned') return failure(phase.name, reasonOf(end.error), end.error, { intent })
  if (!(end.value instanceof Absent)) {
    const error = new PawlError(
      'PAWL_INVALID_RESULT',
      `reconcile of phase '${phase.name}' has to return found(result) or absent().`,
    )
    return failure(phase.name, 'unknown_error', error, { intent })
  }
  if (absentCountsInMs > 0)
    return failure(phase.name, 'outcome_pending', null, { intent, afterMs: absentCountsInMs })
  if (phase.guarantee === 'keyed') return call(run, phase)
  run.update({ ...run.row, nowMs: run.nowMs(), intent: null }, run.leasedAt)
  return { type: 'again' }
}

/** Gives the key back once a call that outlived its time-out ends: with its result, if it has one. */
function releaseWhenSettled(run: Run, phase: ForeignPhase, pending: Promise<Settlement>): void {
  const { env, afterwards } = run.parts
  const { hold } = run
  const { intent } = run.row
  const work = pending.then(async (settlement) => {
    const result = settlement.type === 'returned' ? keep(phase, settlement.value) : null
    const known = result !== null && result.bytes <= env.caps.stateBytes ? result.intent : null
    try {
      await env.sessions.with(phase.name, (session) =>
        releaseKey({ session, tables: env.tables }, hold, {
          keepLease: false,
          runAfterMs: 0,
          // What it counts as was settled when the time-out was reported.
          countsAs: 'attempt',
          raiseEpoch: false,
          intent: known ?? intent,
          lastError: settlement.type === 'threw' ? recordError(settlement.error) : null,
          lockTimeoutMs: env.lockTimeoutMs,
        }),
      )
    } catch (error) {
      announce('pawl:warning', () => ({
        message: 'a late result could not be saved; its lease runs out',
        error,
      }))
    }
  })
  afterwards.add(work)
  void work.finally(() => afterwards.delete(work))
}

function asked(
  phase: ForeignPhase,
  directive: Respond | RetryLater | null,
  more: Pick<Failure, 'intent' | 'raiseEpoch'>,
): Failure {
  if (directive instanceof Respond) {
    return failure(phase.name, 'asked_by_phase', null, { ...more, response: directive.response })
  }
  return failure(phase.name, 'asked_by_phase', directive?.error, {
    ...more,
    afterMs: directive?.afterMs ?? null,
  })
}

export function reasonOf(error: unknown): RetryReason {
  if (error instanceof PawlError && error.code === 'PAWL_CLOSING') return 'closing'
  return classifyError(error) === 'unknown' ? 'unknown_error' : 'transient_error'
}

/** What a call returned, in the form it can be kept in. */
interface Result {
  /** A fresh copy each time, so that `settle` sees the same now, at its second try, and after a crash. */
  readonly read: () => unknown
  /** Null where it is not JSON: then it lives only as long as this process. It is too late for an error. */
  readonly intent: Intent | null
  readonly bytes: number
}

function keep(phase: ForeignPhase, value: unknown): Result {
  try {
    const json = JSON.stringify(value) ?? 'null'
    const intent: Intent = { kind: 'called', phase: phase.name, result: JSON.parse(json) as JsonValue }
    return { read: () => JSON.parse(json) as unknown, intent, bytes: Buffer.byteLength(json) }
  } catch (error) {
    announce('pawl:warning', () => ({
      message: `the result of call in phase '${phase.name}' is not JSON`,
      error,
    }))
    return { read: () => value, intent: null, bytes: 0 }
  }
}

function effectOf(run: Run, phase: ForeignPhase, result: unknown): Effect {
  const providerKey = providerKeyOf(run.parts.env.namespace, run.row, phase.effectName)
  return {
    phase: phase.name,
    effectName: phase.effectName,
    providerKey,
    reference: referenceOf(phase, result),
  }
}

/** Wanted, not needed: it must not fail a phase whose effect has happened. */
function referenceOf(phase: ForeignPhase, result: unknown): string | null {
  try {
    const reference = phase.reference?.(result as never)
    return typeof reference === 'string' ? storableText(reference) : null
  } catch (error) {
    announce('pawl:warning', () => ({ message: `reference of phase '${phase.name}' threw`, error }))
    return null
  }
}
