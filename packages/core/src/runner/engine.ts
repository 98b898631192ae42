import { setMaxListeners } from 'node:events'
import type { Kysely } from 'kysely'
import type { Pool } from 'pg'
import { announce } from '../announce/announce.js'
import { checkKnownOptions, checkWholeNumber, type OptionOwner } from '../check-option.js'
import { KyselyFactory } from '../driver/kysely-driver.js'
import type { Probe } from '../driver/probe.js'
import { SessionPool } from '../driver/session-pool.js'
import { PawlError } from '../errors.js'
import { checkRequest } from '../key/check-request.js'
import type { Environment } from '../key/environment.js'
import { FINGERPRINT_VERSION, fingerprintOf } from '../key/fingerprint.js'
import { LeaseKeeper } from '../key/lease-keeper.js'
import { type Reservation, reserveKey, type Wanted } from '../key/reserve-key.js'
import {
  CLOSE_ABORT_GRACE_MS,
  CONNECTION_DEADLINE_SLACK_MS,
  DEFAULT_CLOSE_TIMEOUT_MS,
  MAX_INT32,
} from '../limits.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { Outcome, ResumeOutcome } from '../pipeline/outcome.js'
import { definitionOf, type Pipeline, type PipelineDefinition } from '../pipeline/pipeline.js'
import { Registry } from '../pipeline/registry.js'
import { type PipelineSettings, resolveSettings } from '../pipeline/settings.js'
import { SettingsBook } from '../pipeline/settings-book.js'
import { findKey } from '../storage/reserve-statements.js'
import { checkEngineOptions, type EngineOptions } from './engine-options.js'
import type { EngineParts } from './engine-parts.js'
import { giveBack } from './give-back.js'
import { type KeyView, viewKey } from './key-view.js'
import { askedMessage, reservationOutcome } from './reservation-outcome.js'
import { Run } from './run.js'
import { runPipeline } from './run-pipeline.js'
import { failure } from './step-result.js'
import { StrictMode } from './strict-mode.js'
import { recheckInput, type ValidatedInput, validateInput } from './validate-input.js'

/** One request: who asks, under which key, for what. */
export interface ExecuteRequest<Input> {
  /** The authenticated principal that owns the key. Never take it from the request's body. */
  readonly scope: string
  /** The client's Idempotency-Key. */
  readonly key: string
  /** What the pipeline works on: checked by its schema, stored with the key, the same for every attempt. */
  readonly input: Input
  /** What makes two requests the same, where that is more than the input (an HTTP method and path, raw bytes). */
  readonly fingerprint?: JsonValue | Uint8Array
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
  /** Resumes an abandoned key by its id, with the same checks as a retry of its client. */
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

export class RunningEngine<DB> implements Engine<DB> {
  readonly db: Kysely<DB>
  readonly #pool: Pool
  readonly #parts: EngineParts
  readonly #defaults: PipelineSettings
  readonly #unlisted = new WeakMap<PipelineDefinition, EngineParts>()
  readonly #stopping = new AbortController()
  readonly #running = new Set<Promise<unknown>>()
  readonly #onPoolError = (error: Error): void =>
    announce('pawl:warning', () => ({ message: 'an idle connection broke', error }))
  #closing: Promise<void> | null = null

  constructor(options: EngineOptions<DB>, probe: Probe | null) {
    const checked = checkEngineOptions(options as unknown as EngineOptions<never>)
    const { pool } = options
    const { tables, caps, namespace, acquireTimeoutMs } = checked
    const registry = new Registry(options.pipelines)
    const settings = new SettingsBook(checked.defaults, registry.definitions)
    const { lockTimeoutMs, statementTimeoutMs } = resolveSettings(checked.defaults)
    const statementDeadlineMs = statementTimeoutMs + CONNECTION_DEADLINE_SLACK_MS
    const sessions = new SessionPool(pool, { acquireTimeoutMs, statementDeadlineMs, probe })
    const env: Environment = { sessions, tables, registry, settings, caps, namespace, lockTimeoutMs, probe }
    const strict = new StrictMode(checked.strict)
    const kysely = new KyselyFactory(sessions, options.plugins ?? [], strict.refuseNestedCheckout)
    const keeper = new LeaseKeeper(pool, tables, statementDeadlineMs, probe)
    const stager = (options.stager as EngineParts['stager'] | undefined) ?? null
    this.#pool = pool
    this.#defaults = checked.defaults
    this.#parts = {
      env,
      kysely,
      keeper,
      strict,
      stager,
      unlisted: false,
      stopping: this.#stopping.signal,
      afterwards: new Set(),
    }
    this.db = kysely.onPool<DB>()
    // Every running call listens for the end; Node takes more than ten of them for a leak.
    setMaxListeners(0, this.#stopping.signal)
    // A pool without a listener ends the process when an idle connection breaks.
    pool.on('error', this.#onPoolError)
  }

  async execute<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<Outcome> {
    const definition = this.#definitionOf(pipeline)
    if (!this.#parts.env.registry.has(definition)) {
      throw new PawlError(
        'PAWL_NOT_REGISTERED',
        `Pipeline '${definition.name}' version ${definition.version} is not among the pipelines given to createEngine.`,
      )
    }
    return this.#execute(this.#parts, definition, request)
  }

  /**
   * Runs a pipeline of one phase that is not among those given to createEngine, such as one made of a request's own
   * handler. Only another such request can take its key over: `resume` refuses it. So its key is forgotten when the
   * phase fails: nothing happened, and nobody else could go on with it.
   */
  async executeUnlisted<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<Outcome> {
    return this.#execute(this.prepareUnlisted(pipeline), this.#definitionOf(pipeline), request)
  }

  /** Checks such a pipeline before its first request. */
  prepareUnlisted<Input>(pipeline: Pipeline<DB, Input>): EngineParts {
    const definition = this.#definitionOf(pipeline)
    const known = this.#unlisted.get(definition)
    if (known !== undefined) return known
    const registry = new Registry([pipeline])
    const settings = new SettingsBook(this.#defaults, registry.definitions)
    const parts = { ...this.#parts, env: { ...this.#parts.env, registry, settings }, unlisted: true }
    this.#unlisted.set(definition, parts)
    return parts
  }

  async #execute(
    parts: EngineParts,
    definition: PipelineDefinition,
    request: ExecuteRequest<unknown>,
  ): Promise<Outcome> {
    checkKnownOptions(EXECUTE, request, ['scope', 'key', 'input', 'fingerprint'])
    checkRequest(request.scope, request.key)
    return this.#track(async () => {
      const { wanted, invalid } = await this.#wanted(definition, request)
      const { scope, key } = request
      const asked = askedMessage(scope, key, definition.name, definition.version)
      const reservation = await reserveKey(parts.env, wanted)
      if (reservation.type === 'granted') return this.#run(parts, reservation)
      if (reservation.type !== 'gone') return reservationOutcome(reservation, asked)
      throw invalid ?? new TypeError('a fresh key cannot be gone')
    })
  }

  async resume(keyId: string): Promise<ResumeOutcome> {
    if (typeof keyId !== 'string' || !UUID.test(keyId)) {
      throw new PawlError(
        'PAWL_INVALID_REQUEST',
        `resume: keyId is '${keyId}'; it has to be the id of a key.`,
      )
    }
    return this.#track(async () => {
      const reservation = await reserveKey(this.#parts.env, { by: 'id', id: keyId })
      if (reservation.type === 'granted') {
        return this.#run(this.#parts, reservation) as Promise<ResumeOutcome>
      }
      if (reservation.type === 'gone') return { type: 'gone' } as const
      const row =
        reservation.type === 'decided' ? reservation.row : { scope: '', key: keyId, pipeline: '', version: 0 }
      const asked = askedMessage(row.scope, row.key, row.pipeline, row.version)
      return reservationOutcome(reservation, asked) as ResumeOutcome
    })
  }

  async inspect(scope: string, key: string): Promise<KeyView | null> {
    checkRequest(scope, key)
    const { sessions, tables } = this.#parts.env
    const row = await sessions.with('inspect', (session) => findKey({ session, tables }, scope, key))
    return row === null ? null : viewKey(row)
  }

  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'close' }
    checkKnownOptions(owner, options, ['timeoutMs'])
    checkWholeNumber(owner, 'timeoutMs', options.timeoutMs, 0, MAX_INT32)
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
    await within(CLOSE_ABORT_GRACE_MS, new Set([...this.#running, ...this.#parts.afterwards]))
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

  #definitionOf<Input>(pipeline: Pipeline<DB, Input>): PipelineDefinition {
    const definition = (pipeline as Partial<Pipeline<DB, Input>> | undefined)?.[definitionOf]
    if (definition === undefined) {
      throw new PawlError(
        'PAWL_NOT_REGISTERED',
        'execute was given something that is not a pipeline. A builder becomes one by its finish().',
      )
    }
    return definition
  }

  /** What to reserve. An input that no longer validates may still meet its own stored response. */
  async #wanted(
    definition: PipelineDefinition,
    request: ExecuteRequest<unknown>,
  ): Promise<{ readonly wanted: Wanted; readonly invalid: PawlError | null }> {
    const { scope, key, input } = request
    const validated = await validateInput(definition, input, this.#parts.env.caps.inputBytes)
    // Taken from the input as it came: a default that the schema gains must not turn retries into mismatches.
    const fingerprint = fingerprintOf(request.fingerprint ?? whatCounts(definition, input, validated))
    if (validated.type === 'invalid') {
      return { wanted: { by: 'existing', definition, scope, key, fingerprint }, invalid: validated.error }
    }
    const { name: pipeline, version, hash: definitionHash } = definition
    const row = {
      scope,
      key,
      pipeline,
      version,
      definitionHash,
      fingerprint,
      fingerprintVersion: FINGERPRINT_VERSION,
      inputJson: validated.json,
    }
    return { wanted: { by: 'request', definition, key: row }, invalid: null }
  }

  async #run(parts: EngineParts, grant: Extract<Reservation, { type: 'granted' }>): Promise<Outcome> {
    const { how, row, definition, askedAt } = grant
    const run = new Run(parts, definition, row, askedAt)
    if (how === 'reserved') {
      announce('pawl:reserved', () => run.grantMessage())
      return runPipeline(run)
    }
    announce('pawl:taken_over', () => ({ ...run.grantMessage(), attempts: row.attempts }))
    const rejected = await recheckInput(definition, row.inputJson)
    if (rejected === null) return runPipeline(run)
    return giveBack(run, failure(row.recoveryPoint, 'unknown_error', rejected, { intent: row.intent }))
  }
}

/** A mistyped `fingerprint` would make every request look alike. */
const EXECUTE: OptionOwner = { code: 'PAWL_INVALID_REQUEST', where: 'execute' }

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** What of the input makes two requests the same. An invalid input may be one that `fingerprint` cannot read. */
function whatCounts(definition: PipelineDefinition, input: unknown, validated: ValidatedInput): JsonValue {
  if (definition.fingerprint === null) return input as JsonValue
  try {
    return definition.fingerprint(input as never)
  } catch (error) {
    throw validated.type === 'invalid' ? validated.error : error
  }
}

/** Waits for all of them to end, but no longer than that. */
async function within(timeoutMs: number, work: ReadonlySet<Promise<unknown>>): Promise<void> {
  if (work.size === 0) return
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs)
  })
  await Promise.race([Promise.allSettled(work), timeout])
  clearTimeout(timer)
}
