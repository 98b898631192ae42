import type { Kysely } from 'kysely'
import type { Pool } from 'pg'
import { announce, type KeyMessage } from '../announce/announce.js'
import type { GrantToTrace, RequestToTrace, Tracing } from '../announce/tracing.js'
import { type Because, checkBecause } from '../because.js'
import { checkDate, checkKnownOptions, checkTimerMs, type OptionOwner } from '../check-option.js'
import type { Probe } from '../driver/probe.js'
import { LimitedError, PawlError } from '../errors.js'
import { isUuid } from '../is-uuid.js'
import { checkErasure } from '../erase/check-erasure.js'
import { eraseScope } from '../erase/erase-scope.js'
import type { Erasure, ErasureReport } from '../erase/erasure.js'
import {
  CLOSE_ABORT_GRACE_MS,
  DEFAULT_CLOSE_TIMEOUT_MS,
  DEFAULT_MAX_AGE_MS,
  DEFAULT_RETENTION_MS,
} from '../limits.js'
import type { EnqueueOutcome, Outcome, ResumeOutcome } from '../pipeline/outcome.js'
import { definitionOf, type Pipeline, type PipelineDefinition } from '../pipeline/pipeline.js'
import { Registry } from '../pipeline/registry.js'
import { answerFromCache, cacheAnswer, cacheEnd } from '../request/answer-from-cache.js'
import { checkRequest } from '../request/check-request.js'
import {
  checkBinding,
  type CheckedRequest,
  checkedRequest,
  checkExecuteRequest,
  type ExecuteRequest,
} from '../request/execute-request.js'
import { decideFound } from '../request/decide-found.js'
import { type KeyLook, lookAtKey } from '../request/look-at-key.js'
import { originOf } from '../request/fingerprint.js'
import type { Suspicion } from '../request/suspicions.js'
import { compareBinding, compareOrigin } from '../request/request-fingerprint.js'
import {
  type Enqueued,
  type Granted,
  type NotGranted,
  reserveById,
  reserveDue,
  reserveToEnqueue,
  reserveToRun,
} from '../request/reserve-key.js'
import { recheckInput } from '../request/validate-input.js'
import { Run } from '../run/run.js'
import { safeError } from '../safe-error.js'
import { failRun, runPipeline } from '../run/run-pipeline.js'
import { failure } from '../run/step-result.js'
import { explaining } from '../storage/schema/explaining.js'
import type { Worker } from '../storage/schema/missing-right.js'
import type { KeyKind, KeyRow } from '../storage/keys/key-row.js'
import { findKey } from '../storage/keys/find-key.js'
import type { DueKey } from '../storage/keys/due-keys.js'
import { findOwnKey } from '../storage/keys/find-own-key.js'
import type { Store } from '../storage/statement.js'
import { takeToken } from '../storage/usage/take-token.js'
import type { Rate } from '../storage/usage/bucket.js'
import { settledWithin } from '../settled-within.js'
import { decideExtend } from './decide-extend.js'
import type { Engine, OwnKey } from './engine.js'
import { type AtomicPipeline, createContext, type EngineContext, rememberContext } from './engine-context.js'
import type { EngineOptions } from './engine-options.js'
import type { Intervention } from './intervention.js'
import { type KeyView, viewKey } from './key-view.js'
import { askedMessage, reservationOutcome } from './reservation-outcome.js'
import { steerKey } from './steer-key.js'

export class RunningEngine<DB> implements Engine<DB> {
  readonly db: Kysely<DB>
  readonly #pools: readonly Pool[]
  readonly #context: EngineContext
  readonly #stopping = new AbortController()
  readonly #running = new Set<Promise<unknown>>()
  readonly #onPoolError = (error: Error): void =>
    announce('pawl:warning', () => ({ message: 'an idle connection broke', error }))
  #closing: Promise<void> | null = null

  /**
   * `prepareAfterUses`: after how many uses a phase's query is prepared, if queries are kept prepared. Default: enough to
   * show that it pays.
   */
  constructor(options: EngineOptions<DB>, probe: Probe | null, prepareAfterUses?: number) {
    const internal = options as unknown as EngineOptions<never>
    this.#context = createContext(internal, { probe, prepareAfterUses }, this.#stopping.signal)
    this.#pools = options.replayFrom === undefined ? [options.pool] : [options.pool, options.replayFrom]
    rememberContext(this, this.#context)
    this.db = this.#context.kysely.onPool<DB>()
    // A pool without a listener ends the process when an idle connection breaks.
    for (const pool of this.#pools) pool.on('error', this.#onPoolError)
  }

  async execute<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<Outcome> {
    const definition = this.#registered(pipeline)
    return this.#execute(definition, request, this.#context.registry, 'pipeline', null)
  }

  /** As `execute`, for a request that waited for this key, which has an answer now. */
  async executeFound<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
    found: KeyRow,
  ): Promise<Outcome> {
    const definition = this.#registered(pipeline)
    return this.#execute(definition, request, this.#context.registry, 'pipeline', found)
  }

  async enqueue<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<EnqueueOutcome> {
    return this.#enqueue(pipeline, request, null)
  }

  /** As `enqueue`, for a request that waited for this key, which has an answer now. */
  async enqueueFound<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
    found: KeyRow,
  ): Promise<EnqueueOutcome> {
    return this.#enqueue(pipeline, request, found)
  }

  /** How far a key has come, for those who wait for it. */
  async lookAtKey(scope: string, key: string): Promise<KeyLook> {
    return this.#track(() => lookAtKey(this.#context, scope, key))
  }

  async #enqueue<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
    found: KeyRow | null,
  ): Promise<EnqueueOutcome> {
    const definition = this.#registered(pipeline)
    checkExecuteRequest('enqueue', request, this.#context.fingerprintSecrets)
    this.#context.keyPolicy.check('enqueue', request.key)
    const work = async (): Promise<EnqueueOutcome> => {
      const checked = await this.#checked(definition, request, 'pipeline')
      const reservation =
        (found && decideFound(this.#context, found, checked, this.#context.registry)) ??
        (await this.#reserve(checked, this.#context.registry, 'enqueue', () =>
          reserveToEnqueue(this.#context, checked),
        ))
      if (reservation.type !== 'enqueued') {
        const outcome = reservationOutcome(reservation, () => this.#askedBy(definition, request))
        this.#count(definition, request, outcome.type, found)
        return outcome as EnqueueOutcome
      }
      const { row, fresh } = reservation
      if (fresh) {
        announce('pawl:enqueued', () => ({ ...this.#askedBy(definition, request), keyId: row.id }))
        this.#context.enqueued.wake()
      } else this.#count(definition, request, 'in_flight', found)
      return { type: 'enqueued', keyId: row.id, fresh }
    }
    const { current } = this.#context.tracing
    if (current === null) return this.#track(work)
    const of = requestToTrace('enqueue', this.#askedBy(definition, request), 'pipeline', found !== null)
    return this.#traced(current, of, work)
  }

  /**
   * Runs a pipeline of one phase that is not among those given to createEngine, such as one made from a request's own
   * handler. Only another such request can take its key over: `resume` refuses it. So its key is forgotten when the phase
   * fails: nothing happened, and nobody else could go on with it.
   */
  async executeAtomic<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
    found: KeyRow | null = null,
  ): Promise<Outcome> {
    const { definition, registry } = this.prepareAtomic(pipeline)
    return this.#execute(definition, request, registry, 'atomic', found)
  }

  /** Checks such a pipeline before its first request. */
  prepareAtomic<Input>(pipeline: Pipeline<DB, Input>): AtomicPipeline {
    const { atomicPipelines, settings } = this.#context
    const definition = this.#definitionOf(pipeline)
    const known = atomicPipelines.get(definition)
    if (known !== undefined) return known
    const registry = new Registry([pipeline])
    settings.add(definition)
    const { maxAgeMs } = settings.pipeline(definition)
    // A retry may come at any time, and is then as good as the first; but nobody counts on one for longer than this.
    const forgetAfterMs = Math.min(maxAgeMs, DEFAULT_MAX_AGE_MS)
    const leaseBoundMs = settings.leaseBoundMs(definition)
    const atomic = { definition, registry, forgetAfterMs, leaseBoundMs }
    atomicPipelines.set(definition, atomic)
    return atomic
  }

  #execute(
    definition: PipelineDefinition,
    request: ExecuteRequest<unknown>,
    among: Registry,
    kind: KeyKind,
    found: KeyRow | null,
  ): Promise<Outcome> {
    checkExecuteRequest('execute', request, this.#context.fingerprintSecrets)
    this.#context.keyPolicy.check('execute', request.key)
    const work = async (): Promise<Outcome> => {
      const checked = await this.#checked(definition, request, kind)
      const reservation =
        (found && decideFound(this.#context, found, checked, among)) ??
        (await this.#reserve(checked, among, 'execute', () => reserveToRun(this.#context, checked, among)))
      if (reservation.type === 'granted') return this.#run(reservation)
      const outcome = reservationOutcome(reservation, () => this.#askedBy(definition, request))
      this.#count(definition, request, outcome.type, found)
      return outcome
    }
    const { current } = this.#context.tracing
    if (current === null) return this.#track(work)
    const of = requestToTrace('execute', this.#askedBy(definition, request), kind, found !== null)
    return this.#traced(current, of, work)
  }

  /** A request that waited for its key was counted when it began to. */
  #count(
    definition: PipelineDefinition,
    { scope }: ExecuteRequest<unknown>,
    outcome: Outcome['type'],
    found: KeyRow | null,
  ): void {
    if (found === null) this.#context.duplicates?.count(scope, definition.name, outcome)
  }

  /** Asks the cache first, if there is one, and tells it what the database has said. */
  async #reserve<T extends Granted | Enqueued>(
    request: CheckedRequest,
    among: Registry,
    method: 'execute' | 'enqueue',
    reserve: () => Promise<T | NotGranted>,
  ): Promise<T | NotGranted> {
    const { cache } = this.#context
    if (cache === null) return reserve()
    const cached = await answerFromCache(cache, this.#context, request, among, method)
    if (cached !== null) return cached
    const under = cache.epoch
    const reservation = await reserve()
    cacheAnswer(cache, under, reservation)
    return reservation
  }

  async resume(keyId: string): Promise<ResumeOutcome> {
    checkKeyId('resume', keyId)
    return this.#resume(keyId, () => reserveById(this.#context, keyId))
  }

  /** As `resume`, but only once the key's back-off is over: for the completer, which may have found it a while ago. */
  async resumeDue(key: DueKey): Promise<ResumeOutcome> {
    return this.#resume(key.id, () => reserveDue(this.#context, key))
  }

  async #resume(keyId: string, reserve: () => ReturnType<typeof reserveById>): Promise<ResumeOutcome> {
    const work = async (): Promise<ResumeOutcome> => {
      const reservation = await reserve()
      if (reservation.type === 'gone') return reservation
      if (reservation.type === 'granted') return this.#run(reservation) as Promise<ResumeOutcome>
      const row =
        reservation.type === 'decided' ? reservation.row : { scope: '', key: keyId, pipeline: '', version: 0 }
      const asked = () => askedMessage(this.#context.names, row, row)
      return reservationOutcome(reservation, asked) as ResumeOutcome
    }
    const { current } = this.#context.tracing
    if (current === null) return this.#track(work)
    return this.#traced(current, RESUME_TO_TRACE, work)
  }

  async inspect(scope: string, key: string): Promise<KeyView | null> {
    checkRequest('inspect', scope, key)
    const row = await this.#look(scope, (store) => findKey(store, scope, key))
    return row === null ? null : viewKey(row)
  }

  /** What messages call a key. */
  hashKeyName(scope: string, key: string): string {
    return this.#context.names.hash(scope, key)
  }

  /** How long it keeps a finished key of a pipeline; null where it does not know the pipeline. */
  retentionMsOf<Input>(pipeline: Pipeline<DB, Input>): number | null {
    const { registry, atomicPipelines, settings } = this.#context
    const definition = this.#definitionOf(pipeline)
    const isKnown = registry.has(definition) || atomicPipelines.has(definition)
    return isKnown ? settings.pipeline(definition).retentionMs : null
  }

  /** A copy of an error for logs, without what the option `redact` takes out. */
  safeError(error: unknown): Error {
    return safeError(error, this.#context.redact)
  }

  /** Why a client's key is refused, where an adapter passes something else on to `execute`; null where it is not. */
  judgeKey(key: string): Suspicion | null {
    return this.#context.keyPolicy.judge(key)
  }

  /** As `inspect`, for an owner who knows a key by its id. */
  async inspectOwn(of: OwnKey): Promise<KeyView | null> {
    const { keyId: id, scope, bindTo } = of
    const origin = originOf(of.origin)
    const { fingerprintSecrets: secrets } = this.#context
    checkKeyId('inspectOwn', id)
    if (bindTo !== undefined) checkBinding('inspectOwn', bindTo, secrets)
    const row = await this.#look(scope, (store) => findOwnKey(store, { id, scope, plainStart: origin }))
    if (row === null) return null
    const binding = bindTo === undefined ? null : { scope, key: row.key, bindTo }
    const cameIn = compareOrigin(secrets, row, origin)
    const compared = cameIn.type === 'same' ? compareBinding(secrets, row, binding) : cameIn
    switch (compared.type) {
      case 'other':
        return null
      case 'unknown':
        throw new PawlError('PAWL_KEY_MISSING', `Key ${id} cannot be shown: ${compared.detail}.`)
      case 'same':
        // Its owner waits for the response.
        if (row.sealed !== null && row.status === 'finished') throw row.sealed
        return viewKey(row)
    }
  }

  /** Returns once the cache can be used, or it turned out that it cannot. */
  async learnCache(): Promise<void> {
    await this.#context.cache?.learn()
  }

  async extend(
    scope: string,
    key: string,
    until: Date,
    because: Because = { actor: 'application', reason: 'engine.extend' },
  ): Promise<Intervention> {
    checkRequest('extend', scope, key)
    checkBecause('extend', because)
    checkDate({ code: 'PAWL_INVALID_OPTION', where: 'extend' }, 'until', until)
    return steerKey(
      this.#onOwnSessions('extend', 'steering_application'),
      { of: { scope, key }, because },
      (row) => decideExtend(row, until),
    )
  }

  async erase(erasure: Erasure): Promise<ErasureReport> {
    const { registry, hashSecret } = this.#context
    const checked = checkErasure(erasure, longestWindowMs(registry.definitions))
    if (this.#closing !== null)
      throw new PawlError('PAWL_CLOSING', 'The engine is closing and takes no new work.')
    const stopping = this.#stopping.signal
    const onErased = (key: string): void => this.#context.cache?.drop(checked.scope, key)
    if (checked.key === null && !checked.dryRun) this.#context.duplicates?.forget(checked.scope)
    const context = { ...this.#onOwnSessions('erase', 'eraser'), hashSecret, stopping, onErased }
    const erasing = eraseScope(context, checked)
    this.#running.add(erasing)
    try {
      return await erasing
    } finally {
      this.#running.delete(erasing)
    }
  }

  async recordPipelines(): Promise<void> {
    if (this.#closing !== null) return
    const recording = this.#context.recorder.record()
    this.#running.add(recording)
    try {
      await recording
    } finally {
      this.#running.delete(recording)
    }
  }

  /** For work that is no request: whatever a role lacks for it, the error names. */
  #onOwnSessions(place: string, worker: Worker) {
    const { sessions, tables } = this.#context
    return {
      with: <T>(work: (store: Store) => Promise<T>): Promise<T> =>
        explaining(this.#context, () => sessions.with(place, (session) => work({ session, tables })), worker),
    }
  }

  /** Whether `bindTo` can be used. */
  get canBind(): boolean {
    return this.#context.fingerprintSecrets.canBind
  }

  /** For whoever asks for a key, whether or not there is one: both cost the scope the same. */
  async #look(scope: string, find: (store: Store) => Promise<KeyRow | null>): Promise<KeyRow | null> {
    const { sessions, tables, breaker, limits } = this.#context
    const rate = limits.lookupsOf(scope)
    const refusal = breaker.refusal()
    if (refusal !== null) throw refusal
    return explaining(this.#context, () =>
      sessions.with('inspect', async (session) => {
        const store = { session, tables }
        if (rate !== null) await takeLookup(store, scope, rate)
        return find(store)
      }),
    ).catch((error: unknown) => {
      breaker.failed(error)
      throw error
    })
  }

  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'close' }
    checkKnownOptions(owner, options, ['timeoutMs'])
    checkTimerMs(owner, 'timeoutMs', options.timeoutMs, 0)
    this.#closing ??= this.#drain(options.timeoutMs ?? DEFAULT_CLOSE_TIMEOUT_MS)
    return this.#closing
  }

  /** Stops everything that goes on by itself, as the end of the process would. For tests that crash an engine. */
  halt(): void {
    this.#context.keeper.halt()
    this.#context.strict.close()
    this.#context.duplicates?.halt()
  }

  async #drain(timeoutMs: number): Promise<void> {
    await settledWithin(timeoutMs, this.#running)
    this.#stopping.abort()
    for (const call of this.#context.calls)
      call.abort(new PawlError('PAWL_CLOSING', 'The engine is closing.'))
    const graceEndsAt = performance.now() + CLOSE_ABORT_GRACE_MS
    await settledWithin(CLOSE_ABORT_GRACE_MS, this.#running)
    // One after the other: only when its request has ended does it turn out that a call ignores its signal and goes on.
    await settledWithin(Math.max(0, graceEndsAt - performance.now()), this.#context.afterwards)
    await this.#writeCounts()
    this.#context.keeper.halt()
    this.#context.strict.close()
    for (const pool of this.#pools) pool.off('error', this.#onPoolError)
  }

  /** What was counted until now. A database that is away is not waited for as long as by a request. */
  async #writeCounts(): Promise<void> {
    const { duplicates } = this.#context
    if (duplicates === null) return
    duplicates.halt()
    if (duplicates.size > 0) await settledWithin(CLOSE_ABORT_GRACE_MS, new Set([duplicates.flush()]))
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

  /** On its own, like all that is built for a tracing: a function allocates for what it could capture when it is called. */
  #traced<T extends Outcome | EnqueueOutcome | ResumeOutcome>(
    tracing: Tracing,
    of: RequestToTrace,
    work: () => Promise<T>,
  ): Promise<T | Extract<Outcome, { type: 'unavailable' }>> {
    return tracing.request(of, () => this.#track(work))
  }

  #checked(
    definition: PipelineDefinition,
    request: ExecuteRequest<unknown>,
    kind: KeyKind,
  ): Promise<CheckedRequest> {
    const { caps, fingerprintSecrets: secrets } = this.#context
    return checkedRequest(definition, request, kind, { maxInputBytes: caps.inputBytes, secrets })
  }

  #registered<Input>(pipeline: Pipeline<DB, Input>): PipelineDefinition {
    const definition = this.#definitionOf(pipeline)
    if (this.#context.registry.has(definition)) return definition
    throw new PawlError(
      'PAWL_NOT_REGISTERED',
      `Pipeline '${definition.name}' version ${definition.version} is not among the pipelines passed to createEngine.`,
    )
  }

  #definitionOf<Input>(pipeline: Pipeline<DB, Input>): PipelineDefinition {
    const definition = (pipeline as Partial<Pipeline<DB, Input>> | undefined)?.[definitionOf]
    if (definition === undefined) {
      throw new PawlError(
        'PAWL_NOT_REGISTERED',
        'What was passed is not a pipeline. A builder becomes one when you call its finish().',
      )
    }
    return definition
  }

  async #run(grant: Granted): Promise<Outcome> {
    const { cache } = this.#context
    const run = new Run(this.#context, grant)
    if (cache === null) return this.#runToTheEnd(grant, run)
    const under = cache.epoch
    const outcome = await this.#runToTheEnd(grant, run)
    cacheEnd(cache, under, run.row, outcome)
    return outcome
  }

  async #runToTheEnd({ how, row, definition }: Granted, run: Run): Promise<Outcome> {
    this.#context.tracing.current?.granted(grantToTrace(how, run))
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

  #askedBy({ name: pipeline, version }: PipelineDefinition, request: ExecuteRequest<unknown>): KeyMessage {
    return askedMessage(this.#context.names, request, { pipeline, version })
  }
}

function requestToTrace(
  by: 'execute' | 'enqueue',
  asked: KeyMessage,
  kind: KeyKind,
  hasWaited: boolean,
): RequestToTrace {
  return { by, kind, ...asked, hasWaited }
}

/** Whatever it is of: only pipelines are resumed. */
const RESUME_TO_TRACE: RequestToTrace = {
  by: 'resume',
  kind: 'pipeline',
  pipeline: null,
  version: null,
  keyHash: null,
  scopeHash: null,
  hasWaited: false,
}

function grantToTrace(how: Granted['how'], run: Run): GrantToTrace {
  const { attempts, traceparent } = run.row
  return { how, ...run.grantMessage(), attempts, traceparent }
}

/** As long as any provider may be asked again under the same key, and as long as clients usually try again. */
function longestWindowMs(definitions: readonly PipelineDefinition[]): number {
  const windows = definitions.flatMap(({ phases }) =>
    phases.map((phase) => (phase.kind === 'foreign' ? phase.windowMs : 0)),
  )
  return Math.max(DEFAULT_RETENTION_MS, ...windows)
}

function checkKeyId(where: string, keyId: unknown): void {
  if (isUuid(keyId)) return
  throw new PawlError(
    'PAWL_INVALID_REQUEST',
    `${where}: keyId is '${String(keyId)}'; it has to be the id of a key.`,
  )
}

async function takeLookup(store: Store, scope: string, rate: Rate): Promise<void> {
  const waitMs = await takeToken(store, { scope, kind: 'lookups', pipeline: null }, rate)
  if (waitMs !== null) throw new LimitedError(rate, waitMs)
}
