import { checkFunction, type OptionOwner } from '../check-option.js'
import { PawlError } from '../errors.js'
import { announce } from './announce.js'
import { isTraceparent } from './traceparent.js'
import type { Tracing, TracingSlot } from './tracing.js'

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'traceEngine' }

const METHODS = {
  request: true,
  traceparent: true,
  granted: true,
  phase: true,
  body: true,
  call: true,
  round: true,
  waited: true,
} as const satisfies Record<keyof Tracing, true>

/** Puts a tracing into an engine's slot. Returns a function that takes it out again; what has begun by then ends inside of it. */
export function installTracing(slot: TracingSlot, tracing: Tracing): () => void {
  for (const method of Object.keys(METHODS) as (keyof Tracing)[])
    checkFunction(OWNER, method, (tracing as Partial<Tracing> | null | undefined)?.[method])
  if (slot.current !== null)
    throw new PawlError(
      OWNER.code,
      'traceEngine: the engine is traced already, and would be measured twice. Call what the first traceEngine returned.',
    )
  const guarded = guardTracing(tracing)
  slot.current = guarded
  return () => {
    if (slot.current === guarded) slot.current = null
  }
}

/**
 * The same tracing, such that no mistake of it reaches a request: what is to run runs exactly once, begins at once and ends as it
 * ends, whatever is thrown around it. Each method that fails is reported once.
 */
function guardTracing(tracing: Tracing): Tracing {
  const reported = new Set<keyof Tracing>()
  const report = (method: keyof Tracing, error: unknown): void => {
    if (reported.has(method)) return
    reported.add(method)
    announce('pawl:warning', () => ({
      message: `${method} of the engine's tracing failed; requests go on without it`,
      error,
    }))
  }
  const around = <T>(
    method: keyof Tracing,
    run: () => Promise<T>,
    trace: (run: () => Promise<T>) => Promise<T>,
  ): Promise<T> => {
    let running: Promise<T> | null = null
    const once = (): Promise<T> => (running ??= run())
    let traced: Promise<T> | null = null
    try {
      traced = trace(once)
    } catch (error) {
      report(method, error)
    }
    const ours = once()
    // Its end belongs to nobody. It is like ours, or there is something to report.
    if (traced !== null && traced !== ours) reportUnlike(ours, traced, (error) => report(method, error))
    return ours
  }
  /** What it returns is nobody's, but a promise of it may fail. */
  const tell = (method: keyof Tracing, work: () => unknown): void => {
    try {
      const returned = work()
      if (returned instanceof Promise) returned.catch((error: unknown) => report(method, error))
    } catch (error) {
      report(method, error)
    }
  }
  return {
    request: (request, run) => around('request', run, (once) => tracing.request(request, once)),
    phase: (phase, run) => around('phase', run, (once) => tracing.phase(phase, once)),
    body: (phase, run) => around('body', run, (once) => tracing.body(phase, once)),
    call: (ofCall, run) => around('call', run, (once) => tracing.call(ofCall, once)),
    round: (service, run) => around('round', run, (once) => tracing.round(service, once)),
    granted: (grant) => tell('granted', () => tracing.granted(grant)),
    waited: (ms, got) => tell('waited', () => tracing.waited(ms, got)),
    traceparent: () => {
      let given: string | null = null
      tell('traceparent', () => {
        const returned: unknown = tracing.traceparent()
        if (returned !== null && !isTraceparent(returned)) return refuse(returned)
        given = returned
        return null
      })
      return given
    },
  }
}

function refuse(returned: unknown): never {
  if (returned instanceof Promise) returned.catch(() => {})
  throw new PawlError(
    OWNER.code,
    'traceEngine: traceparent returned something else than a W3C traceparent of version 00, or null.',
  )
}

/** Where nothing fails, it costs one promise. */
function reportUnlike(
  ours: Promise<unknown>,
  traced: Promise<unknown>,
  report: (error: unknown) => void,
): void {
  const compare = (reason: unknown): void => {
    ours.then(
      () => report(reason),
      (own: unknown) => own === reason || report(reason),
    )
  }
  // It may be anything that is called a promise: its `then` may throw.
  const settled = traced instanceof Promise ? traced : new Promise((resolve) => resolve(traced))
  try {
    void Promise.prototype.then.call(settled, undefined, compare)
  } catch (error) {
    report(error)
  }
}
