import {
  checkFunction,
  checkKnownOptions,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import {
  DEFAULT_DELIVER_TIMEOUT_MS,
  DEFAULT_JOB_MAX_ATTEMPTS,
  DEFAULT_RELAY_BATCH_SIZE,
  DEFAULT_RELAY_CONCURRENCY,
  DEFAULT_RELAY_CONCURRENCY_PER_SCOPE,
  DEFAULT_RELAY_POLL_MS,
  MAX_INT32,
} from '../limits.js'
import type { Sink } from './sink.js'

/** How a relay works. */
export interface RelayOptions {
  readonly sink: Sink
  /** Only jobs of these names; order is kept among them alone. Default: all. */
  readonly names?: readonly string[]
  /** The longest time between two looks. Default 1 s; a phase in this process that stages a job wakes it at once. */
  readonly pollMs?: number
  /** How many jobs are claimed at a time, and so how many one delivery takes at most. Default 100. */
  readonly batchSize?: number
  /** How many deliveries are under way at a time, each with jobs of one scope. Default 10. */
  readonly concurrency?: number
  /**
   * How many of these may be of one scope: one that hangs leaves the rest to the others. Default 1, so that the next jobs of a scope
   * gather for its next delivery.
   */
  readonly concurrencyPerScope?: number
  /**
   * A delivery takes jobs of several scopes, which fills the batches of a queue that takes many at once. A job that hangs, or makes the
   * sink throw, then holds up those that it is with, whosever they are. Default: false.
   */
  readonly mixScopes?: boolean
  /** How long a delivery may take. Default 30 s. */
  readonly deliverTimeoutMs?: number
  /** Deliveries of one job before it is dead. Default 25. */
  readonly maxAttempts?: number
}

/** `names` is null for all of them. */
export type CheckedRelayOptions = Required<Omit<RelayOptions, 'names'>> & {
  readonly names: readonly string[] | null
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'createBackground: relay' }
const OPTION_NAMES = [
  'sink',
  'names',
  'pollMs',
  'batchSize',
  'concurrency',
  'concurrencyPerScope',
  'mixScopes',
  'deliverTimeoutMs',
  'maxAttempts',
] as const satisfies readonly (keyof RelayOptions)[]

/** Checks every option once and fills in defaults. */
export function checkRelayOptions(options: RelayOptions): CheckedRelayOptions {
  checkKnownOptions(OWNER, options, OPTION_NAMES)
  const { sink, names, pollMs, batchSize, deliverTimeoutMs, maxAttempts, mixScopes = false } = options
  const concurrency = options.concurrency ?? DEFAULT_RELAY_CONCURRENCY
  const { concurrencyPerScope = DEFAULT_RELAY_CONCURRENCY_PER_SCOPE } = options
  checkFunction(OWNER, 'sink.deliver', (sink as Partial<Sink> | null | undefined)?.deliver)
  checkTimerMs(OWNER, 'pollMs', pollMs)
  checkWholeNumber(OWNER, 'batchSize', batchSize, 1, MAX_INT32)
  checkWholeNumber(OWNER, 'concurrency', concurrency, 1, MAX_INT32)
  checkWholeNumber(OWNER, 'concurrencyPerScope', concurrencyPerScope, 1, concurrency)
  if (typeof mixScopes !== 'boolean') throw invalidOption(OWNER, 'mixScopes', mixScopes, 'true or false')
  checkTimerMs(OWNER, 'deliverTimeoutMs', deliverTimeoutMs)
  checkWholeNumber(OWNER, 'maxAttempts', maxAttempts, 1, MAX_INT32)
  const isList = Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === 'string')
  if (names !== undefined && !isList) throw invalidOption(OWNER, 'names', names, 'a list of names of jobs')
  return {
    sink,
    names: names ?? null,
    pollMs: pollMs ?? DEFAULT_RELAY_POLL_MS,
    batchSize: batchSize ?? DEFAULT_RELAY_BATCH_SIZE,
    concurrency,
    concurrencyPerScope,
    mixScopes,
    deliverTimeoutMs: deliverTimeoutMs ?? DEFAULT_DELIVER_TIMEOUT_MS,
    maxAttempts: maxAttempts ?? DEFAULT_JOB_MAX_ATTEMPTS,
  }
}
