import type { Kysely } from 'kysely'
import type { Pool } from 'pg'
import { announce, type KeyMessage } from '../announce/announce.js'
import { NameHasher } from '../announce/name-hasher.js'
import { Bell } from '../bell.js'
import { checkKnownOptions, checkTimerMs, invalidOption, type OptionOwner } from '../check-option.js'
import { KyselyFactory } from '../driver/kysely-driver.js'
import type { Probe } from '../driver/probe.js'
import { PreparedQueries } from '../driver/prepared-name.js'
import { SessionPool } from '../driver/session-pool.js'
import { PawlError } from '../errors.js'
import { isUuid } from '../is-uuid.js'
import { checkRequest } from '../request/check-request.js'
import { originOf } from '../request/fingerprint.js'
import { ReplayLikelihood } from '../request/replay-likelihood.js'
import type { RequestContext } from '../request/request-context.js'
import type { Environment } from '../run/environment.js'
import { LeaseKeeper } from '../run/lease-keeper.js'
import { type Granted, type Reservation, reserveKey } from '../request/reserve-key.js'
import {
  CLOSE_ABORT_GRACE_MS,
  CONNECTION_DEADLINE_SLACK_MS,
  DEFAULT_MAX_AGE_MS,
  DEFAULT_CLOSE_TIMEOUT_MS,
} from '../limits.js'
import type { EnqueueOutcome, Outcome, ResumeOutcome } from '../pipeline/outcome.js'
import { definitionOf, type Pipeline, type PipelineDefinition } from '../pipeline/pipeline.js'
import { Registry } from '../pipeline/registry.js'
import { type PipelineSettings, resolveSettings } from '../pipeline/settings.js'
import { SettingsBook } from '../pipeline/settings-book.js'
import type { KeyRow } from '../storage/key-row.js'
import { explaining } from '../storage/explaining.js'
import { findKey, findOwnKey } from '../storage/reserve-statements.js'
import type { Store } from '../storage/statement.js'
import { within } from '../within.js'
import { checkEngineOptions, type EngineOptions } from './engine-options.js'
import type { EngineParts } from '../run/engine-parts.js'
import { checkExecuteRequest, type ExecuteRequest, wantedKey } from '../request/execute-request.js'
import { type KeyView, viewKey } from './key-view.js'
import { askedMessage, reservationOutcome } from './reservation-outcome.js'
import { Run } from '../run/run.js'
import { failRun, runPipeline } from '../run/run-pipeline.js'
import { failure } from '../run/step-result.js'
import { QuietCalls } from '../run/quiet-calls.js'
import { StrictMode } from '../run/strict-mode.js'
import { recheckInput } from '../request/validate-input.js'

/** A key by its id, and by what only its owner knows it by. */
export interface OwnKey {
  readonly keyId: string
  readonly scope: string
  /** Where its request came in, as its fingerprint says. */
  readonly origin: string
}

/** Runs pipelines on one database. */
export interface Engine<DB> {
  /** A Kysely on the same driver, for work outside phases. Inside a phase, use `tx`. */
  readonly db: Kysely<DB>
  /**
   * Runs a request, resumes it, or replays its response. Throws only for wrong use; whatever else happens is an outcome.
   *
   * @example
   * const outcome = await engine.execute(createRide, { scope: user.id, key, input })
   */
  execute<Input>(pipeline: Pipeline<DB, Input>, request: ExecuteRequest<NoInfer<Input>>): Promise<Outcome>
  /**
   * Reserves the key and leaves the phases to the completer of `createBackground`: woken at once in this process, at its
   * next poll in others. A retry gets the stored response once there is one. Throws only for wrong use.
   *
   * @example
   * const outcome = await engine.enqueue(createRide, { scope: user.id, key, input })
   */
  enqueue<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<EnqueueOutcome>
  /** Resumes an unattended key by its id, with the same checks as a retry of its client. */
  resume(keyId: string): Promise<ResumeOutcome>
  /** A key with its trail; null if there is none. */
  inspect(scope: string, key: string): Promise<KeyView | null>
  /**
   * Takes no new work, lets running requests end, and gives back the keys of those that do not within `timeoutMs`.
   * The pool stays open.
   */
  close(options?: { readonly timeoutMs?: number }): Promise<void>
}

/**
 * Creates an engine on a `pg.Pool`.
 *
 * @example
 * const engine = createEngine<Database>({ pool, pipelines: [createRide] })
 */
export function createEngine<DB>(options: EngineOptions<DB>): Engine<DB> {
  return new RunningEngine<DB>(options, null)
}

type Parts = EngineParts & { readonly env: RequestContext }

export class RunningEngine<DB> implements Engine<DB> {
  readonly db: Kysely<DB>
  readonly #pool: Pool
  readonly #parts: Parts
  readonly #defaults: PipelineSettings
  readonly #atomic = new WeakMap<PipelineDefinition, Parts>()
  readonly #stopping = new AbortController()
  readonly #running = new Set<Promise<unknown>>()
  readonly #onPoolError = (error: Error): void =>
    announce('pawl:warning', () => ({ message: 'an idle connection broke', error }))
  #closing: Promise<void> | null = null

  /** `prepareAfterUses`: of a query of a phase, where they are kept prepared. Default: as many as say that it pays. */
  constructor(options: EngineOptions<DB>, probe: Probe | null, prepareAfterUses?: number) {
    const checked = checkEngineOptions(options as unknown as EngineOptions<never>)
    const { pool } = options
    const { tables, caps, namespace, acquireTimeoutMs, pipelining, preparedStatements } = checked
    const preparedQueries = checked.preparedQueries ? new PreparedQueries(prepareAfterUses) : null
    const registry = new Registry(options.pipelines)
    const settings = new SettingsBook(checked.defaults, registry.definitions)
    const { lockTimeoutMs, statementTimeoutMs } = resolveSettings(checked.defaults)
    const statementDeadlineMs = statementTimeoutMs + CONNECTION_DEADLINE_SLACK_MS
    const ofSessions = { statementDeadlineMs, lockTimeoutMs, pipelining, preparedStatements, probe }
    const sessions = new SessionPool(pool, { ...ofSessions, preparedQueries, acquireTimeoutMs })
    const replayLikelihood = new ReplayLikelihood()
    const env: Environment & RequestContext = {
      sessions,
      tables,
      registry,
      kind: 'pipeline',
      settings,
      caps,
      namespace,
      names: new NameHasher(checked.hashSecret),
      lockTimeoutMs,
      probe,
      replayLikelihood,
    }
    const strict = new StrictMode(checked.strict)
    const kysely = new KyselyFactory(sessions, options.plugins ?? [], strict.refuseNestedCheckout)
    const keeper = new LeaseKeeper(pool, tables, ofSessions)
    const stager = (options.stager as EngineParts['stager'] | undefined) ?? null
    this.#pool = pool
    this.#defaults = checked.defaults
    this.#parts = {
      env,
      kysely,
      keeper,
      strict,
      quietCalls: new QuietCalls(),
      stager,
      atomicDefinitions: new Set(),
      enqueued: new Bell(),
      staged: new Bell(),
      stopping: this.#stopping.signal,
      calls: new Set(),
      afterwards: new Set(),
    }
    enginesParts.set(this, this.#parts)
    this.db = kysely.onPool<DB>()
    // A pool without a listener ends the process when an idle connection breaks.
    pool.on('error', this.#onPoolError)
  }

  async execute<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<Outcome> {
    return this.#execute(this.#parts, this.#registered(pipeline), request)
  }

  async enqueue<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<EnqueueOutcome> {
    const definition = this.#registered(pipeline)
    checkExecuteRequest('enqueue', request)
    return this.#track(async () => {
      const reservation = await reserveFor(this.#parts, definition, request, true)
      if (reservation.type === 'granted') throw new TypeError('a key that was to be enqueued was granted')
      if (reservation.type !== 'enqueued') {
        return reservationOutcome(reservation, askedBy(this.#parts, definition, request)) as EnqueueOutcome
      }
      const { row, fresh } = reservation
      if (fresh) {
        announce('pawl:enqueued', () => ({ ...askedBy(this.#parts, definition, request), keyId: row.id }))
        this.#parts.enqueued.ring()
      }
      return { type: 'enqueued', keyId: row.id, fresh }
    })
  }

  /**
   * Runs a pipeline of one phase that is not among those given to createEngine, such as one made of a request's own
   * handler. Only another such request can take its key over: `resume` refuses it. So its key is forgotten when the
   * phase fails: nothing happened, and nobody else could go on with it.
   */
  async executeAtomic<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<Outcome> {
    return this.#execute(this.prepareAtomic(pipeline), this.#definitionOf(pipeline), request)
  }

  /** Checks such a pipeline before its first request. */
  prepareAtomic<Input>(pipeline: Pipeline<DB, Input>): Parts {
    const definition = this.#definitionOf(pipeline)
    const known = this.#atomic.get(definition)
    if (known !== undefined) return known
    const registry = new Registry([pipeline])
    const settings = new SettingsBook(this.#defaults, registry.definitions)
    const parts: Parts = { ...this.#parts, env: { ...this.#parts.env, registry, settings, kind: 'atomic' } }
    this.#atomic.set(definition, parts)
    const { maxAgeMs } = settings.pipeline(definition)
    // A retry may come at any time, and is then as good as the first; but nobody counts on one for longer than this.
    const forgetAfterMs = Math.min(maxAgeMs, DEFAULT_MAX_AGE_MS)
    const leaseBoundMs = settings.leaseBoundMs(definition)
    this.#parts.atomicDefinitions.add({ definition, forgetAfterMs, leaseBoundMs })
    return parts
  }

  #execute(parts: Parts, definition: PipelineDefinition, request: ExecuteRequest<unknown>): Promise<Outcome> {
    checkExecuteRequest('execute', request)
    return this.#track(async () => {
      const reservation = await reserveFor(parts, definition, request, false)
      if (reservation.type === 'granted') return this.#run(parts, reservation)
      if (reservation.type === 'enqueued') throw new TypeError('a key that was to be run was enqueued')
      return reservationOutcome(reservation, askedBy(this.#parts, definition, request))
    })
  }

  async resume(keyId: string): Promise<ResumeOutcome> {
    checkKeyId('resume', keyId)
    return this.#resume(keyId, false)
  }

  /** As `resume`, but not before its back-off is over: for the completer, which may have found it a while ago. */
  async resumeDue(keyId: string): Promise<ResumeOutcome> {
    return this.#resume(keyId, true)
  }

  async #resume(keyId: string, onlyDue: boolean): Promise<ResumeOutcome> {
    return this.#track(async () => {
      const reservation = await reserveKey(this.#parts.env, { by: 'id', id: keyId, onlyDue })
      if (reservation.type === 'granted') {
        return this.#run(this.#parts, reservation) as Promise<ResumeOutcome>
      }
      if (reservation.type === 'gone') return { type: 'gone' } as const
      if (reservation.type === 'enqueued') throw new TypeError('a key that was to be run was enqueued')
      const row =
        reservation.type === 'decided' ? reservation.row : { scope: '', key: keyId, pipeline: '', version: 0 }
      const asked = askedMessage(this.#parts.env.names, row, row)
      return reservationOutcome(reservation, asked) as ResumeOutcome
    })
  }

  async inspect(scope: string, key: string): Promise<KeyView | null> {
    checkRequest('inspect', scope, key)
    return this.#look((store) => findKey(store, scope, key))
  }

  /** What messages call a key. */
  hashKeyName(scope: string, key: string): string {
    return this.#parts.env.names.hash(scope, key)
  }

  /** As `inspect`, for an owner who knows a key by its id. */
  async inspectOwn(of: OwnKey): Promise<KeyView | null> {
    const { keyId: id, scope, origin } = of
    checkKeyId('inspectOwn', id)
    return this.#look((store) => findOwnKey(store, { id, scope, fingerprintStart: originOf(origin) }))
  }

  async #look(find: (store: Store) => Promise<KeyRow | null>): Promise<KeyView | null> {
    const { env } = this.#parts
    const { sessions, tables } = env
    const row = await explaining(env, () => sessions.with('inspect', (session) => find({ session, tables })))
    return row === null ? null : viewKey(row)
  }

  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'close' }
    checkKnownOptions(owner, options, ['timeoutMs'])
    checkTimerMs(owner, 'timeoutMs', options.timeoutMs, 0)
    this.#closing ??= this.#drain(options.timeoutMs ?? DEFAULT_CLOSE_TIMEOUT_MS)
    return this.#closing
  }

  /** Stops all that goes on by itself, as the end of the process would. For tests that crash an engine. */
  halt(): void {
    this.#parts.keeper.halt()
    this.#parts.strict.close()
  }

  async #drain(timeoutMs: number): Promise<void> {
    await within(timeoutMs, this.#running)
    this.#stopping.abort()
    for (const call of this.#parts.calls) call.abort(new PawlError('PAWL_CLOSING', 'The engine is closing.'))
    const graceEndsAt = performance.now() + CLOSE_ABORT_GRACE_MS
    await within(CLOSE_ABORT_GRACE_MS, this.#running)
    // Not together: a call that does not heed its signal is only found to go on when its request has ended.
    await within(Math.max(0, graceEndsAt - performance.now()), this.#parts.afterwards)
    this.#parts.keeper.halt()
    this.#parts.strict.close()
    this.#pool.off('error', this.#onPoolError)
  }

  async #track<T>(work: () => Promise<T>): Promise<T | Extract<Outcome, { type: 'unavailable' }>> {
    if (this.#closing !== null) {
      return {
        type: 'unavailable',
        error: new PawlError('PAWL_CLOSING', 'The engine is closing and takes no new work.'),
      }
    }
    const running = work()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  #registered<Input>(pipeline: Pipeline<DB, Input>): PipelineDefinition {
    const definition = this.#definitionOf(pipeline)
    if (this.#parts.env.registry.has(definition)) return definition
    throw new PawlError(
      'PAWL_NOT_REGISTERED',
      `Pipeline '${definition.name}' version ${definition.version} is not among the pipelines given to createEngine.`,
    )
  }

  #definitionOf<Input>(pipeline: Pipeline<DB, Input>): PipelineDefinition {
    const definition = (pipeline as Partial<Pipeline<DB, Input>> | undefined)?.[definitionOf]
    if (definition === undefined) {
      throw new PawlError(
        'PAWL_NOT_REGISTERED',
        'What was given is not a pipeline. A builder becomes one by its finish().',
      )
    }
    return definition
  }

  async #run(parts: EngineParts, grant: Granted): Promise<Outcome> {
    const { how, row, definition } = grant
    const run = new Run(parts, grant)
    if (how === 'reserved') {
      announce('pawl:reserved', () => run.grantMessage())
      return runPipeline(run)
    }
    // A schema may take its time.
    run.releaseSession()
    announce('pawl:taken_over', () => ({ ...run.grantMessage(), attempts: row.attempts }))
    const rejected = await recheckInput(definition, row.inputJson)
    if (rejected === null) return runPipeline(run)
    return failRun(run, failure(row.recoveryPoint, 'unknown_error', rejected, { intent: row.intent }))
  }
}

const enginesParts = new WeakMap<object, EngineParts>()

/** What an engine is made of, for the services that work beside it. */
export function partsOf(engine: Engine<never>, where: string): EngineParts {
  const parts = enginesParts.get(engine)
  if (parts !== undefined) return parts
  throw invalidOption({ code: 'PAWL_INVALID_OPTION', where }, 'engine', engine, 'what createEngine gives')
}

/** Asks for a request's key: to run it, or to enqueue it for the completer. */
async function reserveFor(
  { env }: Parts,
  definition: PipelineDefinition,
  request: ExecuteRequest<unknown>,
  enqueue: boolean,
): Promise<Exclude<Reservation, { type: 'gone' }>> {
  const { wanted, invalid } = await wantedKey(definition, request, {
    enqueue,
    kind: env.kind,
    maxInputBytes: env.caps.inputBytes,
  })
  const reservation = await reserveKey(env, wanted)
  if (reservation.type === 'gone') throw invalid ?? new TypeError('a fresh key cannot be gone')
  return reservation
}

function askedBy(
  { env }: EngineParts,
  { name: pipeline, version }: PipelineDefinition,
  request: ExecuteRequest<unknown>,
): KeyMessage {
  return askedMessage(env.names, request, { pipeline, version })
}

function checkKeyId(where: string, keyId: unknown): void {
  if (isUuid(keyId)) return
  throw new PawlError(
    'PAWL_INVALID_REQUEST',
    `${where}: keyId is '${String(keyId)}'; it has to be the id of a key.`,
  )
}
