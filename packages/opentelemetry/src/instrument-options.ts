import type { MeterProvider, TracerProvider } from '@opentelemetry/api'
import type { Engine } from '@pawl/core'
import {
  checkKnownOptions,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import type { ReadingSource } from './metrics/database-gauges.js'

/** What is traced and measured, and how. */
export interface InstrumentOptions<DB> {
  /** Its requests, phases, calls and connections, and the rounds of the background services beside it. */
  readonly engine: Engine<DB>
  /**
   * What `createOperator` returns, for gauges of the database: where keys stand, what is stuck, how old the oldest is. Pass it in every
   * process: they are read by one of them at a time. Default: no such gauges.
   */
  readonly operator?: ReadingSource
  /** Default: the global one, as it is now. */
  readonly meterProvider?: MeterProvider
  /** Default: the global one, as it is now. */
  readonly tracerProvider?: TracerProvider
  /** How many scopes are told apart in `pawl.scope.duplicates`: those with the most duplicates. Default 10, at most 100. */
  readonly topScopes?: number
  /** The interval of `pawl.scope.duplicates`. Default 60 s. */
  readonly duplicatesEveryMs?: number
  /** How often the numbers of the database are read, by whichever process. Default 15 s, at least 1 s. */
  readonly readEveryMs?: number
  /** Whether rounds of background services that did nothing get a span as well. Default: no. */
  readonly idleRounds?: boolean
}

/** What is left to do without. */
export interface CheckedInstrumentOptions<DB> {
  readonly engine: Engine<DB>
  readonly operator: ReadingSource | null
  readonly topScopes: number
  readonly duplicatesEveryMs: number
  readonly readEveryMs: number
  readonly idleRounds: boolean
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'instrument' }

const OPTION_NAMES = [
  'engine',
  'operator',
  'meterProvider',
  'tracerProvider',
  'topScopes',
  'duplicatesEveryMs',
  'readEveryMs',
  'idleRounds',
] as const satisfies readonly (keyof InstrumentOptions<never>)[]

/** Each of them is three series in every process. A dashboard shows as many at a glance. */
const DEFAULT_TOP_SCOPES = 10
const MAX_TOP_SCOPES = 100

/** As long as one minute of an outage: a shorter interval tells a burst of retries from an attack no better. */
const DEFAULT_DUPLICATES_EVERY_MS = 60_000

/** How often Prometheus asks, as it is often set: more readings would be seen by nobody. */
const DEFAULT_READ_EVERY_MS = 15_000

/** Below that, no scrape could see an interval. */
const MIN_DUPLICATES_EVERY_MS = 100

/** The least that an operator takes. */
const MIN_READ_EVERY_MS = 1_000

export function checkInstrumentOptions<DB>(options: InstrumentOptions<DB>): CheckedInstrumentOptions<DB> {
  checkKnownOptions(OWNER, options, OPTION_NAMES)
  const { engine, operator, topScopes, duplicatesEveryMs, readEveryMs, idleRounds } = options
  checkHas(operator, 'operator', 'reading', 'what createOperator returns')
  checkHas(options.meterProvider, 'meterProvider', 'getMeter', 'a MeterProvider')
  checkHas(options.tracerProvider, 'tracerProvider', 'getTracer', 'a TracerProvider')
  checkWholeNumber(OWNER, 'topScopes', topScopes, 0, MAX_TOP_SCOPES)
  checkTimerMs(OWNER, 'duplicatesEveryMs', duplicatesEveryMs, MIN_DUPLICATES_EVERY_MS)
  checkTimerMs(OWNER, 'readEveryMs', readEveryMs, MIN_READ_EVERY_MS)
  if (idleRounds !== undefined && typeof idleRounds !== 'boolean')
    throw invalidOption(OWNER, 'idleRounds', idleRounds, 'true or false')
  return {
    engine,
    operator: operator ?? null,
    topScopes: topScopes ?? DEFAULT_TOP_SCOPES,
    duplicatesEveryMs: duplicatesEveryMs ?? DEFAULT_DUPLICATES_EVERY_MS,
    readEveryMs: readEveryMs ?? DEFAULT_READ_EVERY_MS,
    idleRounds: idleRounds ?? false,
  }
}

function checkHas(value: unknown, name: string, member: string, takes: string): void {
  if (value === undefined) return
  const has = typeof value === 'object' && value !== null && typeof Reflect.get(value, member) === 'function'
  if (!has) throw invalidOption(OWNER, name, value, takes)
}
