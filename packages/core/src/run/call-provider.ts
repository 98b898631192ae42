import { PawlError } from '../errors.js'
import type { KeptLease } from './lease-keeper.js'
import { ABORT_GRACE_MS } from '../limits.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import type { Run } from './run.js'

/** How a call ended. The lease is kept until `lease.stop()`, except where it was lost. */
export type CallEnd =
  | { readonly type: 'returned'; readonly value: unknown; readonly lease: KeptLease }
  | { readonly type: 'threw'; readonly error: unknown; readonly lease: KeptLease }
  /** Still under way: it ignored its signal. Its lease must not be given back yet. */
  | {
      readonly type: 'unsettled'
      readonly error: unknown
      readonly pending: Promise<Settlement>
      readonly lease: KeptLease
    }
  | { readonly type: 'fenced_off' }

export type Settlement =
  | { readonly type: 'returned'; readonly value: unknown }
  | { readonly type: 'threw'; readonly error: unknown }

/**
 * Calls the provider with no transaction and no connection of the key, for at most its time-out, while the lease is
 * renewed. Losing the lease aborts the signal and drops the result.
 */
export async function callProvider(
  run: Run,
  phase: ForeignPhase,
  step: 'call' | 'reconcile',
): Promise<CallEnd> {
  const { parts } = run
  const { callTimeoutMs, leaseMs } = parts.env.settings.phase(run.definition, phase.name)
  const call = new RunningCall()
  const onTimeout = () =>
    call.abort(
      new PawlError(
        'PAWL_CALL_TIMEOUT',
        `${step} of phase '${phase.name}' did not answer within ${callTimeoutMs} ms.`,
      ),
    )
  const timer = setTimeout(onTimeout, Math.min(callTimeoutMs, declaredLeftMs(run, phase, step)))
  parts.calls.add(call)
  let lost = false
  const lease = parts.keeper.keep(run.hold, leaseMs, run.leasedAt, () => {
    lost = true
    call.abort(
      new PawlError('PAWL_LEASE_LOST', `Another holder took the key over during phase '${phase.name}'.`),
    )
  })
  try {
    const pending = settle(send(run, phase, step, call.signal))
    const first = await call.unlessAborted(pending)
    // An aborted request needs a moment to say so; one that was answered in that moment is answered.
    const settled = first ?? (await Promise.race([pending, grace()]))
    if (lost) return { type: 'fenced_off' }
    if (settled === null) return { type: 'unsettled', error: call.signal.reason, pending, lease }
    if (settled.type === 'returned') return { type: 'returned', value: settled.value, lease }
    return { type: 'threw', error: call.signal.aborted ? call.signal.reason : settled.error, lease }
  } finally {
    clearTimeout(timer)
    parts.calls.delete(call)
  }
}

/** A declared call ends when it was declared to: from then on, others may believe a provider that does not have it. */
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
  // Only who is told to stop waits: an engine that a test merely watches takes the same turns as any other.
  if (before !== undefined) await before
  const value = await run.parts.strict.inCall(phase.name, async () => ask?.(context as never))
  const after = passed(run, phase, step, 'after')
  if (after !== undefined) await after
  return value
}

function passed(
  { parts }: Run,
  { name: phase }: ForeignPhase,
  step: 'call' | 'reconcile',
  when: 'before' | 'after',
): void | Promise<void> {
  return parts.env.probe?.({ phase, step, when })
}

function settle(promise: Promise<unknown>): Promise<Settlement> {
  return promise.then(
    (value) => ({ type: 'returned', value }),
    (error: unknown) => ({ type: 'threw', error }),
  )
}

/** A call that can be aborted, by us alone: so that there is no need to listen to its signal. */
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

  /** Null: it was aborted first. */
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
