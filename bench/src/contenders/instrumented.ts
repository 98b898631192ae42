import { NodeTracerProvider, BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace-node'
import {
  AggregationTemporality,
  MeterProvider,
  PeriodicExportingMetricReader,
  type PushMetricExporter,
} from '@opentelemetry/sdk-metrics'
import type { Engine } from '@pawl/core'
import { instrument } from '@pawl/opentelemetry'
import { riderOf } from '../business.js'
import type { Contender } from '../contender.js'
import type { Database } from './database.js'
import { FEWEST } from './pawl-fewest.js'
import { pawlIn, type Way } from './pawl.js'

/** What every request is watched by; `off` twice, for what two engines that do the same differ by. */
const watches = {
  off: {},
  again: {},
  'without-sdk': { watch: (engine) => stopper(instrument({ engine })) },
  metrics: { watch: (engine) => watched(engine, { traces: false }) },
  all: { watch: (engine) => watched(engine, { traces: true }) },
} satisfies Record<string, Pick<Way, 'watch'>>

type Watch = keyof typeof watches

/** Pawl with traces and metrics, or without, in tables of its own. */
export type InstrumentedVariant = `pawl-instrumented@${Watch}`

const PREFIX = 'pawl-instrumented@'

export function isInstrumentedVariant(name: string): name is InstrumentedVariant {
  return name.startsWith(PREFIX) && Object.hasOwn(watches, name.slice(PREFIX.length))
}

export function pawlInstrumented(variant: InstrumentedVariant, schema: string): Contender {
  const way: Pick<Way, 'watch'> = watches[variant.slice(PREFIX.length) as Watch]
  return pawlIn(schema, variant, 'Pawl', { ...FEWEST, ...way, scopeOf: riderOf })
}

/** As often as SDKs export by default, or oftener: a run is shorter than a minute. */
const EXPORT_EVERY_MS = 1_000

/** A real SDK that samples every request, batches spans and aggregates metrics, and then forgets them. */
function watched(engine: Engine<Database>, { traces }: { readonly traces: boolean }): () => Promise<void> {
  const reader = new PeriodicExportingMetricReader({
    exporter: METRICS_TO_NOWHERE,
    exportIntervalMillis: EXPORT_EVERY_MS,
    exportTimeoutMillis: EXPORT_EVERY_MS,
  })
  const meterProvider = new MeterProvider({ readers: [reader] })
  const tracerProvider = traces
    ? new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(SPANS_TO_NOWHERE)] })
    : null
  // Contexts are kept across promises, as in every service that is traced.
  tracerProvider?.register()
  const { stop } = instrument({ engine, meterProvider, ...(tracerProvider && { tracerProvider }) })
  return async () => {
    stop()
    await meterProvider.shutdown()
    await tracerProvider?.shutdown()
  }
}

const stopper =
  ({ stop }: { readonly stop: () => void }) =>
  async (): Promise<void> =>
    stop()

// oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- `ExportResultCode.SUCCESS`, of a package that is not ours to import
const SUCCESS = { code: 0 } as Parameters<Parameters<SpanExporter['export']>[1]>[0]

const SPANS_TO_NOWHERE: SpanExporter = {
  export: (_spans, done) => done(SUCCESS),
  shutdown: () => Promise.resolve(),
}

const METRICS_TO_NOWHERE: PushMetricExporter = {
  export: (_metrics, done) => done(SUCCESS),
  forceFlush: () => Promise.resolve(),
  shutdown: () => Promise.resolve(),
  selectAggregationTemporality: () => AggregationTemporality.CUMULATIVE,
}
