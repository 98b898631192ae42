import { metrics, trace } from '@opentelemetry/api'
import { safeErrorOf, traceEngine } from '@pawl/core/internal'
import { checkInstrumentOptions, type InstrumentOptions } from './instrument-options.js'
import { DatabaseGauges } from './metrics/database-gauges.js'
import { takeInstruments } from './metrics/provider-instruments.js'
import { TopScopes } from './metrics/top-scopes.js'
import { EngineTracing } from './traces/engine-tracing.js'

/** An engine that is traced and measured. */
export interface Instrumentation {
  /** Spans and measurements end: for tests, and for whoever creates engines and closes them. */
  readonly stop: () => void
}

/** The instrumentation's own name, by which views and samplers know it. */
const SCOPE_NAME = '@pawl/opentelemetry'

/**
 * Traces and measures an engine and its background services. The application brings the SDK, and registers it before; without one,
 * nothing is recorded. An engine can be instrumented once at a time.
 *
 * @example
 * const engine = createEngine({ pool, pipelines, hashSecret })
 * instrument({ engine, operator: createOperator({ pool }) })
 */
export function instrument<DB>(options: InstrumentOptions<DB>): Instrumentation {
  const { engine, operator, topScopes, duplicatesEveryMs, readEveryMs, idleRounds } =
    checkInstrumentOptions(options)
  const { meterProvider = metrics.getMeterProvider(), tracerProvider = trace.getTracerProvider() } = options
  const { instruments, scopeGauges, databaseGauges, giveBack } = takeInstruments(meterProvider, SCOPE_NAME)
  const scopes = new TopScopes(topScopes, duplicatesEveryMs)
  const stops: (() => void)[] = [giveBack]
  const stop = (): void => {
    for (const end of stops.splice(0)) end()
  }
  try {
    const tracing = new EngineTracing({
      tracer: tracerProvider.getTracer(SCOPE_NAME),
      instruments,
      scopes,
      safeError: (error) => safeErrorOf(engine, error),
      idleRounds,
    })
    stops.push(traceEngine(engine, tracing))
    stops.push(scopeGauges.add(() => scopes.observations()))
    if (operator !== null) {
      const gauges = new DatabaseGauges(operator, instruments, readEveryMs)
      stops.push(databaseGauges.add(() => gauges.observations()))
    }
  } catch (error) {
    stop()
    throw error
  }
  return { stop }
}
