import type { KyselyPlugin } from 'kysely'
import type { Pool } from 'pg'
import {
  checkFunction,
  checkKnownOptions,
  checkOptionalFunction,
  checkOneOf,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import { PawlError } from '../errors.js'
import { checkHashSecret } from '../hash-secret.js'
import type { Caps } from '../run/caps.js'
import {
  DEFAULT_ACQUIRE_TIMEOUT_MS,
  DEFAULT_BREAKER_FAILURES,
  DEFAULT_BREAKER_PROBE_MS,
  DEFAULT_CACHE_TIMEOUT_MS,
  DEFAULT_COUNT_EVERY_MS,
  DEFAULT_MAX_INPUT_BYTES,
  DEFAULT_MAX_RESPONSE_BYTES,
  DEFAULT_MAX_RESPONSE_HEADER_BYTES,
  DEFAULT_MAX_RESULT_BYTES,
  DEFAULT_MAX_STATE_BYTES,
  DEFAULT_REPLAY_MAX_LAG_MS,
  DEFAULT_REPLAY_TIMEOUT_MS,
  MAX_CACHE_TIMEOUT_MS,
  MAX_COUNT_EVERY_MS,
  MIN_COUNT_EVERY_MS,
  MIN_REPLAY_MAX_LAG_MS,
  MAX_INT32,
} from '../limits.js'
import type { AnyPipeline } from '../pipeline/pipeline.js'
import { checkPipelineSettings, type PipelineSettings } from '../pipeline/settings.js'
import { checkProtection, type Protection } from '../protection.js'
import type { ReplayCache } from '../request/replay-cache.js'
import { DEFAULT_SCHEMA, type Tables, tablesIn } from '../storage/tables.js'
import { checkLimitsOption, type LimitsOption } from '../pipeline/limits-option.js'
import type { BreakerOptions } from '../request/breaker.js'
import { type KeyPolicyOptions, type KeyPolicySettings, readKeyPolicy } from '../request/key-policy.js'
import type { Stager } from '../run/stager.js'
import type { StrictOptions } from '../run/strict-mode.js'

/**
 * What an engine is made of. Only `pool` and `pipelines` are needed; docs/guide.md has a table of the rest.
 *
 * @example
 * const engine = createEngine({ pool, pipelines: [createRide], namespace: 'rides', defaults: { leaseMs: 10_000 } })
 */
export interface EngineOptions<DB> {
  /** Connections come from here. Pawl never ends it. */
  readonly pool: Pool
  /** All pipelines, and all of their versions, that may run here. */
  readonly pipelines: readonly AnyPipeline<DB>[]
  /** The schema of the framework's tables. Default `pawl`. */
  readonly schema?: string
  /** Part of every provider key: keeps two applications on one provider account apart. Never change it. Default `pawl`. */
  readonly namespace?: string
  /**
   * A secret of your own, of 32 characters or more. `keyHash` and `scopeHash` in messages and logs are made with it, so
   * that nobody can find out by trying whose they are. Give the same one to all processes whose logs you compare. Default:
   * a random one for each process.
   */
  readonly hashSecret?: string
  /**
   * What becomes of a retry of a request whose key was deleted, if an effect of it is on record: `refuse` answers `expired`,
   * because running it again could have the effect again; `run` takes it for a new request. Default `refuse`.
   */
  readonly afterExpiry?: 'refuse' | 'run'
  /**
   * Which keys are refused, before anything is asked of the database. Default: card numbers are refused, e-mail addresses and
   * phone numbers cause a warning.
   */
  readonly keyPolicy?: KeyPolicyOptions
  /**
   * Hides inputs, states, results, responses, payloads and errors from whoever can read the database, and makes fingerprints with
   * a key. `aesGcm` makes one. Default: they are stored as they are.
   */
  readonly protect?: Protection
  /**
   * Takes more out of the errors that are recorded as `last_error` and announced as `lastError`, after Pawl has taken out secrets and
   * e-mail addresses. If it throws, nothing of the text is kept. Default: nothing more.
   */
  readonly redact?: (text: string) => string
  /**
   * How much one scope may have, enforced in the database by the statement that reserves a key. Default: nothing is limited.
   */
  readonly limits?: LimitsOption
  /**
   * Counts how many duplicates each scope sends (replays, requests for a running key, mismatches), by minute, in the table
   * `duplicates`, which the reaper keeps for a day. A client with a bug, or an attack, shows there. They are counted in memory and
   * written every `everyMs` (default 10 s), so that no request waits for it. Default: off.
   */
  readonly countDuplicates?: boolean | { readonly everyMs?: number }
  /** Settings for pipelines that do not set their own. */
  readonly defaults?: PipelineSettings
  /** Kysely plugins for `tx` and `engine.db`. The framework's own statements never see them. */
  readonly plugins?: readonly KyselyPlugin[]
  /** Puts staged jobs straight into a queue in the same database. Default: rows in `staged_jobs`. */
  readonly stager?: Stager<DB>
  /**
   * Fails a phase that sent a foreign request where none is allowed. It is a tool for development: the request is seen, not
   * stopped. Default: on unless NODE_ENV is `production`.
   */
  readonly strict?: boolean | StrictOptions
  /** Size caps in bytes. Defaults: input 256 KiB, state 64 KiB, response 2 MiB, its headers 8 KiB, result of a call 1 MiB. */
  readonly caps?: Partial<Caps>
  /**
   * Connections to a streaming replica of the same database. Finished keys are looked for there first, and everything else is
   * left to `pool`. Pawl never ends it. Default: nothing is read from a replica.
   */
  readonly replayFrom?: Pool
  /**
   * A key that was deleted on the primary may still be replayed from the replica for this long. If the replica is further
   * behind, it is not asked. Default 2 s.
   */
  readonly replayMaxLagMs?: number
  /** How long a request waits for the replica, including for a connection, before it asks the primary. Default 250 ms. */
  readonly replayTimeoutMs?: number
  /**
   * A cache such as `redisCache` of `@pawl/redis`, where finished keys are looked for first, and keys that another request has just
   * found in flight. PostgreSQL alone decides everything else. Default: nothing is cached.
   */
  readonly cache?: ReplayCache
  /** How long a request waits for the cache before it asks PostgreSQL. Default 5 ms. */
  readonly cacheTimeoutMs?: number
  /** How long to wait for a connection from the pool. Default 10 s. */
  readonly acquireTimeoutMs?: number
  /**
   * Answers requests with `unavailable` at once while the database cannot be reached, after this many failures in a row, and
   * lets one through per `probeMs` to look. Any answer of the database ends it. `false` turns it off: each request then
   * waits for itself. Default: `{ failures: 5, probeMs: 500 }`.
   */
  readonly breaker?: BreakerOptions | false
  /**
   * Sends BEGIN with a phase's first statement and COMMIT with its last, which saves two round trips in each phase. It
   * needs the client of `pg`; with another client, phases run without it. Default: on.
   */
  readonly pipelining?: boolean
  /**
   * Has the server keep the framework's statements prepared, which saves it from reading and planning them each time. Do
   * not use it behind a pooler that hands out connections per transaction, unless the pooler supports prepared statements
   * (PgBouncer does since 1.21). Default: off.
   */
  readonly preparedStatements?: boolean
  /**
   * The same for queries of your phases that are used again and again. When a column changes its type, connections that
   * have such a query prepared go on with the old one, and PostgreSQL does not say so: replace all connections, as a
   * restart does. Default: off.
   */
  readonly preparedQueries?: boolean
}

export interface CheckedEngineOptions {
  readonly tables: Tables
  readonly namespace: string
  readonly hashSecret: string | null
  readonly afterExpiry: 'refuse' | 'run'
  readonly keyPolicy: KeyPolicySettings
  /** Null when duplicates are not counted. */
  readonly countEveryMs: number | null
  readonly defaults: PipelineSettings
  readonly caps: Caps
  readonly strict: StrictOptions | null
  readonly replayMaxLagMs: number
  readonly replayTimeoutMs: number
  readonly cacheTimeoutMs: number
  readonly acquireTimeoutMs: number
  /** Null when it is off. */
  readonly breaker: Required<BreakerOptions> | null
  readonly pipelining: boolean
  readonly preparedStatements: boolean
  readonly preparedQueries: boolean
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'createEngine' }
const OPTION_NAMES = [
  'pool',
  'pipelines',
  'schema',
  'namespace',
  'hashSecret',
  'redact',
  'afterExpiry',
  'keyPolicy',
  'protect',
  'limits',
  'countDuplicates',
  'defaults',
  'plugins',
  'stager',
  'strict',
  'caps',
  'replayFrom',
  'replayMaxLagMs',
  'replayTimeoutMs',
  'cache',
  'cacheTimeoutMs',
  'acquireTimeoutMs',
  'breaker',
  'pipelining',
  'preparedStatements',
  'preparedQueries',
] as const satisfies readonly (keyof EngineOptions<unknown>)[]

/** Checks every option once and fills in defaults. */
export function checkEngineOptions(options: EngineOptions<never>): CheckedEngineOptions {
  checkKnownOptions(OWNER, options, OPTION_NAMES)
  const { pool, pipelines, plugins, stager, namespace = 'pawl', acquireTimeoutMs } = options
  const { pipelining = true, preparedStatements = false, preparedQueries = false } = options
  if (!isPool(pool)) throw invalidOption(OWNER, 'pool', pool, 'a pg.Pool')
  if (!Array.isArray(pipelines)) throw invalidOption(OWNER, 'pipelines', pipelines, 'a list of pipelines')
  if (typeof namespace !== 'string' || namespace === '')
    throw invalidOption(OWNER, 'namespace', namespace, 'a non-empty string')
  if (plugins !== undefined && !Array.isArray(plugins))
    throw invalidOption(OWNER, 'plugins', plugins, 'a list of Kysely plugins')
  if (stager !== undefined)
    checkFunction(OWNER, 'stager.stage', (stager as Partial<Stager<never>> | null)?.stage)
  checkTimerMs(OWNER, 'acquireTimeoutMs', acquireTimeoutMs)
  checkOptionalFunction(OWNER, 'redact', options.redact)
  checkOneOf(OWNER, 'afterExpiry', options.afterExpiry, ['refuse', 'run'])
  checkLimitsOption(OWNER, 'engine', options.limits)
  checkReplayFrom(options)
  checkCache(options)
  return {
    tables: tablesIn(options.schema ?? DEFAULT_SCHEMA, OWNER.where, checkProtection(OWNER, options.protect)),
    namespace,
    hashSecret: checkHashSecret(OWNER, options.hashSecret),
    afterExpiry: options.afterExpiry ?? 'refuse',
    keyPolicy: readKeyPolicy(OWNER, options.keyPolicy === undefined ? {} : options.keyPolicy),
    countEveryMs: checkCountDuplicates(options.countDuplicates ?? false),
    defaults: checkDefaults(options.defaults ?? {}),
    caps: checkCaps(options.caps ?? {}),
    strict: checkStrict(options.strict),
    replayMaxLagMs: options.replayMaxLagMs ?? DEFAULT_REPLAY_MAX_LAG_MS,
    replayTimeoutMs: options.replayTimeoutMs ?? DEFAULT_REPLAY_TIMEOUT_MS,
    cacheTimeoutMs: options.cacheTimeoutMs ?? DEFAULT_CACHE_TIMEOUT_MS,
    acquireTimeoutMs: acquireTimeoutMs ?? DEFAULT_ACQUIRE_TIMEOUT_MS,
    breaker: checkBreaker(options.breaker ?? {}),
    pipelining: checkSwitch('pipelining', pipelining),
    preparedStatements: checkSwitch('preparedStatements', preparedStatements),
    preparedQueries: checkSwitch('preparedQueries', preparedQueries),
  }
}

function isPool(value: unknown): boolean {
  return typeof (value as Partial<Pool> | null | undefined)?.connect === 'function'
}

function checkReplayFrom(options: EngineOptions<never>): void {
  const { pool, replayFrom, replayMaxLagMs, replayTimeoutMs } = options
  checkTimerMs(OWNER, 'replayMaxLagMs', replayMaxLagMs, MIN_REPLAY_MAX_LAG_MS)
  checkTimerMs(OWNER, 'replayTimeoutMs', replayTimeoutMs)
  if (replayFrom === undefined) {
    if (replayMaxLagMs === undefined && replayTimeoutMs === undefined) return
    const needs = 'a pg.Pool where replayMaxLagMs or replayTimeoutMs is given'
    throw invalidOption(OWNER, 'replayFrom', replayFrom, needs)
  }
  if (!isPool(replayFrom)) throw invalidOption(OWNER, 'replayFrom', replayFrom, 'a pg.Pool')
  if (replayFrom === pool)
    throw new PawlError(
      OWNER.code,
      `${OWNER.where}: replayFrom is the same pool as pool; it takes a pool of connections to a replica.`,
    )
}

function checkCache({ cache, cacheTimeoutMs }: EngineOptions<never>): void {
  checkWholeNumber(OWNER, 'cacheTimeoutMs', cacheTimeoutMs, 1, MAX_CACHE_TIMEOUT_MS)
  const takes = 'a cache, such as redisCache({ client }) returns'
  if (cache === undefined) {
    if (cacheTimeoutMs !== undefined)
      throw invalidOption(OWNER, 'cache', cache, `${takes}, where cacheTimeoutMs is given`)
    return
  }
  const { get, set, delete: drop } = (cache ?? {}) as Partial<ReplayCache>
  for (const method of [get, set, drop])
    if (typeof method !== 'function') throw invalidOption(OWNER, 'cache', cache, takes)
}

function checkBreaker(breaker: BreakerOptions | false): Required<BreakerOptions> | null {
  if (breaker === false) return null
  if (typeof breaker !== 'object' || breaker === null || Array.isArray(breaker))
    throw invalidOption(OWNER, 'breaker', breaker, 'false or { failures, probeMs }')
  const owner: OptionOwner = { ...OWNER, where: 'createEngine: breaker' }
  checkKnownOptions(owner, breaker, ['failures', 'probeMs'])
  checkWholeNumber(owner, 'failures', breaker.failures, 1, MAX_INT32)
  checkTimerMs(owner, 'probeMs', breaker.probeMs)
  const { failures = DEFAULT_BREAKER_FAILURES, probeMs = DEFAULT_BREAKER_PROBE_MS } = breaker
  return { failures, probeMs }
}

function checkCountDuplicates(count: NonNullable<EngineOptions<never>['countDuplicates']>): number | null {
  if (count === false) return null
  if (count === true) return DEFAULT_COUNT_EVERY_MS
  if (typeof count !== 'object' || count === null || Array.isArray(count))
    throw invalidOption(OWNER, 'countDuplicates', count, 'true, false or { everyMs }')
  const owner: OptionOwner = { ...OWNER, where: 'createEngine: countDuplicates' }
  checkKnownOptions(owner, count, ['everyMs'])
  checkWholeNumber(owner, 'everyMs', count.everyMs, MIN_COUNT_EVERY_MS, MAX_COUNT_EVERY_MS)
  return count.everyMs ?? DEFAULT_COUNT_EVERY_MS
}

function checkSwitch(option: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw invalidOption(OWNER, option, value, 'true or false')
  return value
}

function checkDefaults(defaults: PipelineSettings): PipelineSettings {
  const owner: OptionOwner = { ...OWNER, where: 'createEngine: defaults' }
  checkPipelineSettings(owner, defaults)
  return defaults
}

function checkCaps(caps: Partial<Caps>): Caps {
  const owner: OptionOwner = { ...OWNER, where: 'createEngine: caps' }
  checkKnownOptions(owner, caps, ['inputBytes', 'stateBytes', 'responseBytes', 'headerBytes', 'resultBytes'])
  for (const [name, value] of Object.entries(caps)) checkWholeNumber(owner, name, value, 1)
  return {
    inputBytes: caps.inputBytes ?? DEFAULT_MAX_INPUT_BYTES,
    stateBytes: caps.stateBytes ?? DEFAULT_MAX_STATE_BYTES,
    responseBytes: caps.responseBytes ?? DEFAULT_MAX_RESPONSE_BYTES,
    headerBytes: caps.headerBytes ?? DEFAULT_MAX_RESPONSE_HEADER_BYTES,
    resultBytes: caps.resultBytes ?? DEFAULT_MAX_RESULT_BYTES,
  }
}

function checkStrict(strict: EngineOptions<never>['strict']): StrictOptions | null {
  const wanted = strict ?? process.env['NODE_ENV'] !== 'production'
  if (wanted === false) return null
  if (wanted === true) return {}
  const owner: OptionOwner = { ...OWNER, where: 'createEngine: strict' }
  checkKnownOptions(owner, wanted, ['allow'])
  if (wanted.allow !== undefined) checkFunction(owner, 'allow', wanted.allow)
  return wanted
}
