import {
  checkKnownOptions,
  checkOneOf,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import {
  DEFAULT_MAX_AGE_MS,
  DEFAULT_CALL_TIMEOUT_MS,
  DEFAULT_LEASE_MS,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_RETENTION_MS,
  DEFAULT_TRANSACTION_RETRIES,
  MAX_DEFAULT_IDLE_TIMEOUT_MS,
  MAX_DEFAULT_LOCK_TIMEOUT_MS,
  MAX_DEFAULT_STATEMENT_TIMEOUT_MS,
  MAX_DURATION_MS,
  MIN_LEASE_MS,
} from '../limits.js'
import { checkLimitsOption, type PipelineLimitsOption } from './limits-option.js'

const ISOLATION_LEVELS = ['read committed', 'repeatable read', 'serializable'] as const
/** Isolation of a phase's transaction. A transaction that meets a conflict is retried automatically. */
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number]

/** What can be set for one phase; the pipeline's settings are its defaults. */
export interface PhaseSettings {
  /** Isolation of the phase's transaction. Default `read committed`. */
  readonly isolation?: IsolationLevel
  /** How often a transaction that met a conflict or a lost connection is tried again. Default 5. */
  readonly transactionRetries?: number
  /** `statement_timeout` of the transaction, on the server. Shorter than the lease. Default: half of it, at most 10 s. */
  readonly statementTimeoutMs?: number
  /** `lock_timeout` of the transaction, on the server. Shorter than the lease. Default: a quarter of it, at most 2 s. */
  readonly lockTimeoutMs?: number
  /**
   * `idle_in_transaction_session_timeout` of the transaction, on the server. Shorter than the lease. Default: half of
   * it, at most 10 s.
   */
  readonly idleTimeoutMs?: number
  /**
   * How long a `call` or `reconcile` may take, enforced even if it ignores its `signal`. May be longer than the lease,
   * which is renewed meanwhile. Default 30 s.
   */
  readonly callTimeoutMs?: number
  /** How long the key stays ours without a sign of life while this phase runs. Default 30 s. */
  readonly leaseMs?: number
  /**
   * `now`: with `commits: 'fewest'`, the transaction is committed after this phase, and the next one begins another. For a
   * phase whose rows have to be seen, or whose work must not be repeated, before the next call.
   */
  readonly commit?: 'now'
}

/** What can be set for a pipeline; the engine's `defaults` are its defaults. */
export interface PipelineSettings extends Omit<PhaseSettings, 'commit'> {
  /**
   * `each`: every phase commits by itself. `fewest`: phases between two calls share a transaction, which waits for the disk
   * once; if one of them fails, all of them are undone and run again. Default `each`.
   */
  readonly commits?: 'each' | 'fewest'
  /** Attempts at one point (crashes and unknown exceptions) before the key is stuck. Default 10. */
  readonly maxAttempts?: number
  /** How long a finished key replays, counted from its finish. Default 24 h. */
  readonly retentionMs?: number
  /** Age at which an unfinished key is stuck instead of tried again. Default 24 h. */
  readonly maxAgeMs?: number
  /**
   * What is gone once a key has finished, in the transaction that finishes it: the `input`, or `all` that a replay does not need:
   * the state and what is known of calls, too. Default `nothing`.
   */
  readonly wipe?: Wipe
  /**
   * How much one scope may have of this pipeline, counted for each pipeline by itself. The engine's `limits` hold as well.
   * Default: nothing more is limited.
   */
  readonly limits?: PipelineLimitsOption
}

/** What becomes of a finished key's row. Its response, its trail and its names stay. */
export type Wipe = (typeof WIPES)[number]

export const WIPES = ['nothing', 'input', 'all'] as const

/** With all defaults filled in; only `commit` and `limits` have none. */
export type ResolvedPhaseSettings = Required<Omit<PhaseSettings, 'commit'>> & Pick<PhaseSettings, 'commit'>
export type ResolvedPipelineSettings = Required<Omit<PipelineSettings, 'limits'>> &
  Pick<PipelineSettings, 'limits'>

export const PHASE_SETTING_NAMES = [
  'isolation',
  'transactionRetries',
  'statementTimeoutMs',
  'lockTimeoutMs',
  'idleTimeoutMs',
  'callTimeoutMs',
  'leaseMs',
  'commit',
] as const satisfies readonly (keyof PhaseSettings)[]

export const PIPELINE_SETTING_NAMES = [
  ...PHASE_SETTING_NAMES.filter((name) => name !== 'commit'),
  'commits',
  'maxAttempts',
  'retentionMs',
  'maxAgeMs',
  'wipe',
  'limits',
] as const satisfies readonly (keyof PipelineSettings)[]

/** Checks each setting by itself; how they fit together is known only once defaults are filled in. */
export function checkSettings(owner: OptionOwner, settings: PipelineSettings & PhaseSettings): void {
  checkOneOf(owner, 'isolation', settings.isolation, ISOLATION_LEVELS)
  checkOneOf(owner, 'commits', settings.commits, ['each', 'fewest'])
  checkOneOf(owner, 'wipe', settings.wipe, WIPES)
  checkOneOf(owner, 'commit', settings.commit, ['now'])
  checkWholeNumber(owner, 'transactionRetries', settings.transactionRetries, 0)
  checkTimerMs(owner, 'leaseMs', settings.leaseMs, MIN_LEASE_MS)
  checkWholeNumber(owner, 'maxAttempts', settings.maxAttempts, 1)
  for (const name of ['statementTimeoutMs', 'lockTimeoutMs', 'idleTimeoutMs', 'callTimeoutMs'] as const) {
    checkTimerMs(owner, name, settings[name])
  }
  checkWholeNumber(owner, 'retentionMs', settings.retentionMs, 1, MAX_DURATION_MS)
  checkWholeNumber(owner, 'maxAgeMs', settings.maxAgeMs, 1, MAX_DURATION_MS)
  checkLimitsOption(owner, 'pipeline', settings.limits)
}

/** Checks the names as well, for adapters that take settings as part of their own options. */
export function checkPipelineSettings(owner: OptionOwner, settings: PipelineSettings): void {
  checkKnownOptions(owner, settings, PIPELINE_SETTING_NAMES)
  checkSettings(owner, settings)
}

/** Later layers win. Time-outs that are not set follow the lease, so that a short lease needs no further settings. */
export function resolveSettings(
  ...layers: readonly (PipelineSettings & PhaseSettings)[]
): ResolvedPipelineSettings & ResolvedPhaseSettings {
  const given = Object.assign({}, ...layers.map(withoutUndefined)) as PipelineSettings & PhaseSettings
  const leaseMs = given.leaseMs ?? DEFAULT_LEASE_MS
  return {
    isolation: 'read committed',
    commits: 'each',
    transactionRetries: DEFAULT_TRANSACTION_RETRIES,
    statementTimeoutMs: Math.min(MAX_DEFAULT_STATEMENT_TIMEOUT_MS, Math.floor(leaseMs / 2)),
    lockTimeoutMs: Math.min(MAX_DEFAULT_LOCK_TIMEOUT_MS, Math.floor(leaseMs / 4)),
    idleTimeoutMs: Math.min(MAX_DEFAULT_IDLE_TIMEOUT_MS, Math.floor(leaseMs / 2)),
    callTimeoutMs: DEFAULT_CALL_TIMEOUT_MS,
    maxAttempts: DEFAULT_MAX_ATTEMPTS,
    retentionMs: DEFAULT_RETENTION_MS,
    maxAgeMs: DEFAULT_MAX_AGE_MS,
    wipe: 'nothing',
    ...given,
    leaseMs,
  }
}

/** A transaction that outlives its lease would be fenced off after its work, so the combination is refused. */
export function checkTimeoutsFitLease(owner: OptionOwner, settings: ResolvedPhaseSettings): void {
  for (const name of ['statementTimeoutMs', 'lockTimeoutMs', 'idleTimeoutMs'] as const) {
    if (settings[name] >= settings.leaseMs) {
      throw invalidOption(owner, name, settings[name], `less than leaseMs, which is ${settings.leaseMs}`)
    }
  }
}

function withoutUndefined(layer: PipelineSettings): PipelineSettings {
  return Object.fromEntries(Object.entries(layer).filter(([, value]) => value !== undefined))
}
