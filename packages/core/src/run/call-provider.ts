import type { CallToTrace } from '../announce/tracing.js'
import { PawlError } from '../errors.js'
import { ABORT_GRACE_MS } from '../limits.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import { FencedOff } from './fenced-off.js'
import type { KeptLease } from './lease-keeper.js'
import type { Run } from './run.js'
import type { StrictMode } from './strict-mode.js'

/** How a call ended. */
export type CallEnd =
  | CallAnswer
  /** Still under way: it ignored its signal. Its lease must not be given back yet. */
  | { readonly type: 'unsettled'; readonly error: unknown; readonly pending: Promise<CallAnswer> }

export type CallAnswer =
  | { readonly type: 'returned'; readonly value: unknown }
  | { readonly type: 'threw'; readonly error: unknown }

/**
 * Calls the provider for at most its time-out, without a transaction or a connection of the key, while the lease is
 * renewed. Losing the lease aborts the signal and drops the result. `then` decides what becomes of the key: the lease is
 * renewed until `then` ends it, and no longer than `then` runs.
 */
export async function callProvider<T>(
  run: Run,
  phase: ForeignPhase,
  step: 'call' | 'reconcile',
  then: (end: CallEnd, lease: KeptLease) => Promise<T>,
): Promise<T> {
  const { engine } = run
  const { callTimeoutMs, leaseMs } = engine.settings.phase(run.definition, phase.name)
  const call = new RunningCall()
  const onTimeout = () =>
    call.abort(
      new PawlError(
        'PAWL_CALL_TIMEOUT',
        `${step} of phase '${phase.name}' did not answer within ${callTimeoutMs} ms.`,
      ),
    )
  const lease = engine.keeper.keep(run.hold, leaseMs, run.leasedAt, () =>
    call.abort(
      new PawlError('PAWL_LEASE_LOST', `Another holder took the key over during phase '${phase.name}'.`),
    ),
  )
  const timer = setTimeout(onTimeout, Math.min(callTimeoutMs, declaredLeftMs(run, phase, step)))
  engine.calls.add(call)
  try {
    const end = await endOf(call, asAnswer(send(run, phase, step, call.signal)))
    clearTimeout(timer)
    engine.calls.delete(call)
    if (lease.lost) throw new FencedOff()
    return await then(end, lease)
  } finally {
    await lease.stop()
  }
}

async function endOf(call: RunningCall, pending: Promise<CallAnswer>): Promise<CallEnd> {
  const first = await call.unlessAborted(pending)
  // An aborted request needs a moment to say so; one that is answered in that moment counts as answered.
  const answer = first ?? (await Promise.race([pending, grace()]))
  const { aborted, reason: error } = call.signal
  if (answer === null) return { type: 'unsettled', error, pending }
  return answer.type === 'threw' && aborted ? { type: 'threw', error } : answer
}

/** A call ends when its declaration said it would: from then on, others may believe a provider that does not have it. */
function declaredLeftMs(run: Run, phase: ForeignPhase, step: 'call' | 'reconcile'): number {
  return step === 'call' && phase.guarantee !== 'keyed' ? run.callEndsAt - performance.now() : Infinity
}

async function send(
  run: Run,
  phase: ForeignPhase,
  step: 'call' | 'reconcile',
  signal: AbortSignal,
): Promise<unknown> {
  const idempotencyKey = run.providerKey(phase.effectName)
  const { input, state, scope, keyId } = run.phaseContext()
  const context = { input, state, scope, keyId, idempotencyKey, signal }
  const ask = step === 'call' ? phase.call : phase.reconcile
  const before = passed(run, phase, step, 'before')
  // Await only when told to stop: an engine that a test merely watches takes the same turns as any other.
  if (before !== undefined) await before
  const value = await traceCall(run, phase, step, async () => ask?.(context as never))
  const after = passed(run, phase, step, 'after')
  if (after !== undefined) await after
  return value
}

function traceCall(
  { engine }: Run,
  phase: ForeignPhase,
  step: 'call' | 'reconcile',
  ask: () => Promise<unknown>,
): Promise<unknown> {
  const { strict, tracing } = engine
  if (tracing.current === null) return strict.inCall(phase.name, ask)
  return tracing.current.call(callToTrace(phase, step), callLater(strict, phase.name, ask))
}

/** On its own: a function allocates for what it could capture when it is called. */
const callLater = (strict: StrictMode, phase: string, ask: () => Promise<unknown>) => (): Promise<unknown> =>
  strict.inCall(phase, ask)

function callToTrace(
  { name: phase, effectName, guarantee }: ForeignPhase,
  step: 'call' | 'reconcile',
): CallToTrace {
  return { phase, step, effectName, guarantee }
}

function passed(
  { engine }: Run,
  { name: phase }: ForeignPhase,
  step: 'call' | 'reconcile',
  when: 'before' | 'after',
): void | Promise<void> {
  return engine.probe?.({ phase, step, when })
}

function asAnswer(promise: Promise<unknown>): Promise<CallAnswer> {
  return promise.then(
    (value) => ({ type: 'returned', value }),
    (error: unknown) => ({ type: 'threw', error }),
  )
}

/** A call that only we can abort, so there is no need to listen to its signal. */
export class RunningCall {
  readonly #controller = new AbortController()
  #onAborted: (() => void) | null = null

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  abort(reason: PawlError): void {
    this.#controller.abort(reason)
    this.#onAborted?.()
  }

  /** Resolves with null if the call is aborted first. */
  unlessAborted<T>(pending: Promise<T>): Promise<T | null> {
    return new Promise((resolve, reject) => {
      this.#onAborted = () => resolve(null)
      if (this.signal.aborted) resolve(null)
      else pending.then(resolve, reject)
    })
  }
}

function grace(): Promise<null> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(null), ABORT_GRACE_MS)
  })
}
