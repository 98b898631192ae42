import { NameHasher } from '../announce/name-hasher.js'
import type { TracingSlot } from '../announce/tracing.js'
import { WakeSignal } from '../wake-signal.js'
import { invalidOption } from '../check-option.js'
import { KyselyFactory } from '../driver/kysely-driver.js'
import { PreparedQueries } from '../driver/prepared-name.js'
import type { Probe } from '../driver/probe.js'
import { SessionPool } from '../driver/session-pool.js'
import { CONNECTION_DEADLINE_SLACK_MS } from '../limits.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import { Registry } from '../pipeline/registry.js'
import { resolveSettings } from '../pipeline/settings.js'
import { ResolvedSettings } from '../pipeline/resolved-settings.js'
import { Breaker } from '../request/breaker.js'
import { KeyPolicy } from '../request/key-policy.js'
import { LimitsOfScopes } from '../request/scope-limits.js'
import { CachedKeys } from '../request/cached-keys.js'
import { Replica } from '../request/replica.js'
import { FingerprintSecrets } from '../request/request-fingerprint.js'
import { ReplayLikelihood } from '../request/replay-likelihood.js'
import type { RequestContext } from '../request/request-context.js'
import { LeaseKeeper } from '../run/lease-keeper.js'
import { QuietCalls } from '../run/quiet-calls.js'
import type { RunContext } from '../run/run-context.js'
import { StrictMode } from '../run/strict-mode.js'
import { learnSpread } from '../storage/schema/learn-spread.js'
import { DuplicateCounter } from './duplicate-counter.js'
import { checkEngineOptions, type EngineOptions } from './engine-options.js'
import { PipelineRecorder } from './pipeline-recorder.js'

/** A pipeline of one phase that is not among those given to createEngine: only its own requests know it. */
export interface AtomicPipeline {
  readonly definition: PipelineDefinition
  /** Holds this pipeline and nothing else. */
  readonly registry: Registry
  /** After this long, the completer forgets keys of it that nobody came back for. */
  readonly forgetAfterMs: number
  readonly leaseBoundMs: number
}

/** What an engine is made of: one for each engine, shared by everything it does and by the services beside it. */
export interface EngineContext extends RequestContext, RunContext {
  readonly limits: LimitsOfScopes
  /** What erased names are replaced with is made with it; null where the application gave none. */
  readonly hashSecret: string | null
  readonly atomicPipelines: Map<PipelineDefinition, AtomicPipeline>
  /** Writes down what pipelines look like. */
  readonly recorder: PipelineRecorder
  /** Counts the duplicates of each scope; null unless the user asks for it. */
  readonly duplicates: DuplicateCounter | null
  /** Wakes when a key has been enqueued for the completer. */
  readonly enqueued: WakeSignal
}

/**
 * `prepareAfterUses`: after how many uses a phase's query is prepared, if queries are kept prepared. Default: enough to
 * show that it pays.
 */
export function createContext(
  options: EngineOptions<never>,
  {
    probe,
    prepareAfterUses,
  }: { readonly probe: Probe | null; readonly prepareAfterUses: number | undefined },
  stopping: AbortSignal,
): EngineContext {
  const checked = checkEngineOptions(options)
  const { pool, pipelines, plugins = [], stager = null } = options
  const { tables, caps, namespace, acquireTimeoutMs, pipelining, preparedStatements } = checked
  const preparedQueries = checked.preparedQueries ? new PreparedQueries(prepareAfterUses) : null
  const registry = new Registry(pipelines)
  const settings = new ResolvedSettings(checked.defaults, registry.definitions)
  const { lockTimeoutMs, statementTimeoutMs } = resolveSettings(checked.defaults)
  const statementDeadlineMs = statementTimeoutMs + CONNECTION_DEADLINE_SLACK_MS
  const { spread } = tables
  const breaker = new Breaker(checked.breaker, spread)
  const ofSessions = {
    statementDeadlineMs,
    lockTimeoutMs,
    pipelining,
    preparedStatements,
    spread,
    probe,
    signs: breaker,
  }
  const learn = learnSpread(tables)
  const tracing: TracingSlot = { current: null }
  const sessions = new SessionPool(pool, {
    ...ofSessions,
    preparedQueries,
    acquireTimeoutMs,
    learn,
    waits: tracing,
  })
  const strict = new StrictMode(checked.strict)
  const afterwards = new Set<Promise<void>>()
  const replica =
    options.replayFrom === undefined
      ? null
      : new Replica({
          pool: options.replayFrom,
          ofSessions,
          primary: sessions,
          tables,
          maxLagMs: checked.replayMaxLagMs,
          timeoutMs: checked.replayTimeoutMs,
          afterwards,
        })
  const cache =
    options.cache === undefined
      ? null
      : new CachedKeys({
          cache: options.cache,
          primary: sessions,
          tables,
          namespace,
          timeoutMs: checked.cacheTimeoutMs,
          afterwards,
        })
  const atomicPipelines = new Map<PipelineDefinition, AtomicPipeline>()
  const { countEveryMs } = checked
  return {
    sessions,
    tables,
    registry,
    settings,
    caps,
    namespace,
    hashSecret: checked.hashSecret,
    names: new NameHasher(checked.hashSecret),
    redact: options.redact ?? null,
    keyPolicy: new KeyPolicy(checked.keyPolicy),
    probe,
    tracing,
    limits: new LimitsOfScopes(options.limits, settings),
    runsAgain: checked.afterExpiry === 'run',
    fingerprintSecrets: new FingerprintSecrets(checked.tables.protection, checked.hashSecret),
    replayLikelihood: new ReplayLikelihood(),
    breaker,
    replica,
    cache,
    kysely: new KyselyFactory(sessions, plugins, strict.refuseNestedCheckout),
    keeper: new LeaseKeeper(pool, tables, ofSessions),
    strict,
    quietCalls: new QuietCalls(),
    preparedStatements,
    stager,
    atomicPipelines,
    recorder: new PipelineRecorder({ sessions, tables, registry, settings, namespace, atomicPipelines }),
    duplicates: countEveryMs === null ? null : new DuplicateCounter({ sessions, tables }, countEveryMs),
    enqueued: new WakeSignal(),
    staged: new WakeSignal(),
    stopping,
    calls: new Set(),
    afterwards,
  }
}

const contexts = new WeakMap<object, EngineContext>()

export function rememberContext(engine: object, context: EngineContext): void {
  contexts.set(engine, context)
}

/** Returns what an engine is made of, for the services that work beside it. */
export function contextOf(engine: object, where: string): EngineContext {
  const context = contexts.get(engine)
  if (context !== undefined) return context
  throw invalidOption({ code: 'PAWL_INVALID_OPTION', where }, 'engine', engine, 'what createEngine returns')
}
