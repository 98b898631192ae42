import { type Context, context, ROOT_CONTEXT, type Span, type Tracer } from '@opentelemetry/api'
import type { EnqueueOutcome, Outcome, ResumeOutcome, ServiceName } from '@pawl/core'
import type {
  CallToTrace,
  GrantToTrace,
  PhaseEnd,
  PhaseToTrace,
  RequestToTrace,
  Tracing,
} from '@pawl/core/internal'
import { addRound } from '../metrics/announcements.js'
import type { Instruments, RequestEnd } from '../metrics/instruments.js'
import type { TopScopes } from '../metrics/top-scopes.js'
import { duplicateOf, failureOf, outcomeAttributes } from './outcome-attributes.js'
import { countsOf, didSomething, isAnnounced } from './round-counts.js'
import { callIn, contextWith, failSpan } from './run-in-span.js'
import { current, type TracedRequest } from './traced.js'
import { readTraceparent, traceparentOf } from './traceparent.js'

/** What an engine's tracing works with. */
export interface EngineTracingOptions {
  readonly tracer: Tracer
  readonly instruments: Instruments
  readonly scopes: TopScopes
  /** Makes an error fit for a trace. */
  readonly safeError: (error: unknown) => Error
  /** Whether rounds that did nothing get a span as well. */
  readonly idleRounds: boolean
}

/** What a resume has to do with before its key is known, and what no pipeline is called. */
const UNKNOWN = ''

/**
 * Turns what an engine does into spans and measurements. What goes around something adds one promise to it: every request has several, and
 * where contexts are kept across promises, each of them counts.
 */
export class EngineTracing implements Tracing {
  readonly #options: EngineTracingOptions

  constructor(options: EngineTracingOptions) {
    this.#options = options
  }

  request<T extends Outcome | EnqueueOutcome | ResumeOutcome>(
    request: RequestToTrace,
    run: () => Promise<T>,
  ): Promise<T> {
    const parent = this.#parent()
    const { by, pipeline, version, kind, keyHash, scopeHash } = request
    const attributes = {
      'pawl.by': by,
      'pawl.kind': kind,
      ...(pipeline !== null && { 'pawl.pipeline': pipeline }),
      ...(version !== null && { 'pawl.version': version }),
      ...(keyHash !== null && { 'pawl.key.hash': keyHash }),
      ...(scopeHash !== null && { 'pawl.scope.hash': scopeHash }),
    }
    const span = this.#options.tracer.startSpan(nameOf(by, pipeline), { attributes }, parent)
    const inside = contextWith(parent, span)
    const traced: TracedRequest = {
      by: this,
      span,
      context: inside,
      pipeline: pipeline ?? UNKNOWN,
      version: version ?? 0,
      phase: null,
      phaseContext: inside,
    }
    const startedAt = performance.now()
    return current
      .run(traced, () => callIn(inside, run))
      .then(
        (outcome) => {
          this.#endRequest(request, traced, outcome, startedAt)
          span.end()
          return outcome
        },
        (error: unknown) => {
          this.#count(request, traced, 'threw', startedAt)
          this.#fail(span, 'threw', error)
          span.end()
          throw error
        },
      )
  }

  /**
   * What a round begins is a trace of its own: it goes on after the round, and is about one request. A sink may have gone into another
   * context, such as that of its job.
   */
  #parent(): Context {
    const outer = current.getStore()
    const active = context.active()
    return outer?.span === null && outer.context === active ? ROOT_CONTEXT : active
  }

  #request(): TracedRequest | null {
    const traced = current.getStore()
    return traced === undefined || traced.span === null || traced.by !== this ? null : traced
  }

  traceparent(): string | null {
    const traced = this.#request()
    return traced === null ? null : traceparentOf(traced.span.spanContext())
  }

  granted(grant: GrantToTrace): void {
    const traced = this.#request()
    if (traced === null) return
    const { span } = traced
    const { pipeline, version, fence, attempts, recoveryPoint, keyId, keyHash, scopeHash, how, traceparent } =
      grant
    if (traced.pipeline === UNKNOWN) span.updateName(nameOf('resume', pipeline))
    traced.pipeline = pipeline
    traced.version = version
    span.setAttributes({
      'pawl.pipeline': pipeline,
      'pawl.version': version,
      'pawl.key.id': keyId,
      'pawl.key.hash': keyHash,
      'pawl.scope.hash': scopeHash,
      'pawl.grant': how,
      'pawl.fence': fence,
      'pawl.attempt': attempts,
      'pawl.grant.recovery_point': recoveryPoint,
    })
    const first = readTraceparent(traceparent)
    // A fresh key has its own.
    if (first !== null && first.spanId !== span.spanContext().spanId)
      span.addLink({ context: first, attributes: { 'pawl.link': 'first_attempt' } })
  }

  phase<T extends PhaseEnd>(phase: PhaseToTrace, run: () => Promise<T>): Promise<T> {
    const traced = this.#request()
    if (traced === null) return run()
    const attributes = {
      'pawl.pipeline': traced.pipeline,
      'pawl.phase': phase.phase,
      'pawl.phase.kind': phase.kind,
      'pawl.step': phase.step,
    }
    const span = this.#options.tracer.startSpan(`phase ${phase.phase}`, { attributes }, traced.context)
    traced.phase = phase.phase
    traced.phaseContext = contextWith(traced.context, span)
    const startedAt = performance.now()
    return callIn(traced.phaseContext, run).then(
      (end) => {
        const { type, committed = [], error = null } = end
        if (committed.length > 0) span.setAttribute('pawl.committed', committed.map(committedPoint))
        if (type === 'failed' || type === 'stuck') this.#fail(span, type, error)
        this.#endPhase(traced, phase, span, type, startedAt)
        return end
      },
      (error: unknown) => {
        this.#fail(span, 'fenced_off', error)
        this.#endPhase(traced, phase, span, 'fenced_off', startedAt)
        throw error
      },
    )
  }

  /** The first phase of a leg is the span of the leg. The others are parts of it. */
  body<T>(phase: string, run: () => Promise<T>): Promise<T> {
    const traced = this.#request()
    if (traced === null || phase === traced.phase) return run()
    const attributes = { 'pawl.pipeline': traced.pipeline, 'pawl.phase': phase, 'pawl.step': 'body' }
    const span = this.#options.tracer.startSpan(`phase ${phase}`, { attributes }, traced.phaseContext)
    return callIn(contextWith(traced.phaseContext, span), run).then(
      (value) => {
        span.end()
        return value
      },
      (error: unknown) => {
        this.#fail(span, 'threw', error)
        span.end()
        throw error
      },
    )
  }

  call<T>(call: CallToTrace, run: () => Promise<T>): Promise<T> {
    const traced = this.#request()
    if (traced === null) return run()
    const { phase, step, effectName, guarantee } = call
    const { pipeline, phaseContext } = traced
    const attributes = {
      'pawl.pipeline': pipeline,
      'pawl.phase': phase,
      'pawl.step': step,
      'pawl.effect': effectName,
      'pawl.guarantee': guarantee,
    }
    const span = this.#options.tracer.startSpan(`${step} ${phase}`, { attributes }, phaseContext)
    const startedAt = performance.now()
    return callIn(contextWith(phaseContext, span), run).then(
      (value) => {
        this.#endCall(pipeline, call, span, 'returned', startedAt)
        return value
      },
      (error: unknown) => {
        this.#fail(span, 'threw', error)
        this.#endCall(pipeline, call, span, 'threw', startedAt)
        throw error
      },
    )
  }

  async round<T>(service: ServiceName, run: () => Promise<T>): Promise<T> {
    const { tracer, instruments, idleRounds } = this.#options
    const attributes = { 'pawl.service': service }
    const startTime = Date.now()
    const startedAt = performance.now()
    const early = idleRounds
      ? tracer.startSpan(`${service} round`, { attributes, startTime }, ROOT_CONTEXT)
      : null
    let result: 'ended' | 'failed' = 'failed'
    let counts: Readonly<Record<string, number>> = {}
    let thrown: { readonly error: unknown } | null = null
    try {
      const inside = early === null ? ROOT_CONTEXT : contextWith(ROOT_CONTEXT, early)
      const value = await current.run({ span: null, context: inside }, () => callIn(inside, run))
      result = 'ended'
      counts = countsOf(value)
      // A started service announces its rounds, and one that was only run once does not.
      if (!isAnnounced(value)) addRound(instruments, service, counts)
      return value
    } catch (error) {
      thrown = { error }
      throw error
    } finally {
      const span = early ?? this.#lateSpan(service, startTime, thrown !== null || didSomething(counts))
      if (span !== null) {
        for (const [name, count] of Object.entries(counts)) span.setAttribute(`pawl.round.${name}`, count)
        if (thrown !== null) this.#fail(span, 'failed', thrown.error)
        span.end()
      }
      instruments.record('pawl.round.duration', performance.now() - startedAt, {
        'pawl.service': service,
        'pawl.round.result': result,
      })
    }
  }

  waited(ms: number, got: boolean): void {
    this.#options.instruments.record('pawl.connection.wait.duration', ms, { 'pawl.connection.obtained': got })
  }

  /** Most rounds find nothing, once a second in every process. A span of one that did is made when that is known. */
  #lateSpan(service: ServiceName, startTime: number, isWorthASpan: boolean): Span | null {
    if (!isWorthASpan) return null
    const attributes = { 'pawl.service': service }
    return this.#options.tracer.startSpan(`${service} round`, { attributes, startTime }, ROOT_CONTEXT)
  }

  #endRequest(
    request: RequestToTrace,
    traced: TracedRequest,
    outcome: Outcome | EnqueueOutcome | ResumeOutcome,
    startedAt: number,
  ): void {
    const { span } = traced
    const { type } = outcome
    span.setAttribute('pawl.outcome', type)
    span.setAttributes(outcomeAttributes(outcome))
    const failed = failureOf(outcome)
    if (failed !== null) this.#fail(span, failed.type, failed.error)
    this.#count(request, traced, type, startedAt)
    const duplicate = duplicateOf(outcome)
    if (request.scopeHash !== null && duplicate !== null && !request.hasWaited)
      this.#options.scopes.add(request.scopeHash, duplicate)
  }

  #endPhase(
    traced: TracedRequest,
    { phase, kind }: PhaseToTrace,
    span: Span,
    result: PhaseEnd['type'] | 'fenced_off',
    startedAt: number,
  ): void {
    span.setAttribute('pawl.phase.result', result)
    span.end()
    traced.phase = null
    traced.phaseContext = traced.context
    this.#options.instruments.record('pawl.phase.duration', performance.now() - startedAt, {
      'pawl.pipeline': traced.pipeline,
      'pawl.phase': phase,
      'pawl.phase.kind': kind,
      'pawl.phase.result': result,
    })
  }

  #endCall(
    pipeline: string,
    { phase, step }: CallToTrace,
    span: Span,
    result: 'returned' | 'threw',
    startedAt: number,
  ): void {
    span.end()
    this.#options.instruments.record('pawl.call.duration', performance.now() - startedAt, {
      'pawl.pipeline': pipeline,
      'pawl.phase': phase,
      'pawl.call.step': step,
      'pawl.call.result': result,
    })
  }

  #count(
    { by }: RequestToTrace,
    { pipeline, version }: TracedRequest,
    outcome: RequestEnd,
    startedAt: number,
  ): void {
    const { instruments } = this.#options
    const of = { 'pawl.pipeline': pipeline, 'pawl.outcome': outcome }
    instruments.addRequest({ ...of, 'pawl.version': version, 'pawl.by': by })
    instruments.record('pawl.request.duration', performance.now() - startedAt, of)
  }

  #fail(span: Span, type: string, error: unknown): void {
    failSpan(span, type, error === null ? null : this.#options.safeError(error))
  }
}

const nameOf = (by: string, pipeline: string | null): string => (pipeline === null ? by : `${by} ${pipeline}`)

const committedPoint = ({ point, skipped }: NonNullable<PhaseEnd['committed']>[number]): string =>
  skipped ? `${point} (skipped)` : point
