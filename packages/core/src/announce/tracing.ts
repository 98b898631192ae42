import type { EnqueueOutcome, Outcome, ResumeOutcome } from '../pipeline/outcome.js'
import type { ServiceName } from './announce.js'

/**
 * What goes around the work of an engine, for tools that trace and measure it. An engine has at most one, and none unless
 * somebody asks: then nothing here is built or called.
 *
 * Each `run` is to be called once, before the method returns, and what it returns or throws passed on. An engine does not depend
 * on that: see `guardTracing`.
 */
export interface Tracing {
  /** Around a request, from its first statement to its outcome. */
  request<T extends Outcome | EnqueueOutcome | ResumeOutcome>(
    request: RequestToTrace,
    run: () => Promise<T>,
  ): Promise<T>
  /** The W3C `traceparent` that a fresh key is stored with; null for none. Called inside `request`. */
  traceparent(): string | null
  /** The request was granted its key. Called inside `request`, before any phase. */
  granted(grant: GrantToTrace): void
  /** Around a step of a phase, until it is durable or has failed. With `commits: 'fewest'`, the phases of a leg share one. */
  phase<T extends PhaseEnd>(phase: PhaseToTrace, run: () => Promise<T>): Promise<T>
  /** Around a phase's own function in its transaction, so that whatever it starts is a part of it. */
  body<T>(phase: string, run: () => Promise<T>): Promise<T>
  /** Around the user's `call` or `reconcile`: the HTTP client's own span is a part of it. It ends when that function does. */
  call<T>(call: CallToTrace, run: () => Promise<T>): Promise<T>
  /**
   * Around a round of a background service that works beside the engine. What a completer's or a relay's round has begun may go on
   * after it: `pawl:round` has the counts.
   */
  round<T>(service: ServiceName, run: () => Promise<T>): Promise<T>
  /** How long somebody waited for a connection of the pool, and whether they got one. */
  waited(ms: number, got: boolean): void
}

/** A request as it comes in. `resume`: a completer, or whoever knows a key by its id. */
export interface RequestToTrace {
  readonly by: 'execute' | 'enqueue' | 'resume'
  /** Null for a resume: what it is of is known once it is granted. */
  readonly pipeline: string | null
  readonly version: number | null
  readonly kind: 'pipeline' | 'atomic'
  /** Null for a resume. */
  readonly keyHash: string | null
  readonly scopeHash: string | null
  /** It has waited for its key, and was traced before when it began to. */
  readonly hasWaited: boolean
}

/** A grant: from here on, phases run. */
export interface GrantToTrace {
  readonly how: 'reserved' | 'taken_over'
  readonly keyId: string
  readonly keyHash: string
  readonly scopeHash: string
  readonly pipeline: string
  readonly version: number
  readonly fence: number
  /** How often it was begun since it last advanced, with this one: 1 where nothing went wrong. */
  readonly attempts: number
  readonly recoveryPoint: string
  /** That of the first attempt, as it is stored with the key. */
  readonly traceparent: string | null
}

/** A phase that is about to run. */
export interface PhaseToTrace {
  readonly phase: string
  readonly kind: 'local' | 'foreign' | 'finish'
  /** What is done first: such as `run_local`, `call`, `settle`, `reconcile`. */
  readonly step: string
}

/** How a step ended. */
export interface PhaseEnd {
  readonly type: 'advanced' | 'finished' | 'again' | 'failed' | 'stuck'
  /** The recovery points that were reached, where it advanced or finished. */
  readonly committed?: readonly { readonly point: string; readonly skipped: boolean }[]
  /** Why it failed or is stuck; null where a phase asked for that without an error. With all that it carries: see `safeError`. */
  readonly error?: unknown
}

/** A call that is about to be made. */
export interface CallToTrace {
  readonly phase: string
  readonly step: 'call' | 'reconcile'
  readonly effectName: string
  readonly guarantee: string
}

/** Where an engine's tracing is, if it has any. Whoever works for the engine asks each time: it may come later, and go. */
export interface TracingSlot {
  current: Tracing | null
}

/** Runs a round inside of the tracing, if there is any. */
export function traceRound<T>(
  { current }: TracingSlot,
  service: ServiceName,
  run: () => Promise<T>,
): Promise<T> {
  return current === null ? run() : current.round(service, run)
}
