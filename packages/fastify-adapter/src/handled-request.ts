import { randomUUID } from 'node:crypto'
import { type JsonValue, PawlError, type Pipeline, type Stage, type Write } from '@pawl/core'
import {
  chosenFingerprint,
  enqueueFound,
  executeAtomic,
  executeFound,
  hashKeyName,
  judgeKey,
  OriginFingerprint,
  retentionMsOf,
} from '@pawl/core/internal'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Answer, type Answerable, answerTo, problemOf } from './answer.js'
import { askLater, type Later } from './ask-later.js'
import { type AtomicPipeline, AtomicRun, errorOfHandler } from './atomic.js'
import { restoreHead } from './capture-reply.js'
import { checkBinding } from './check-binding.js'
import { checkScope } from './check-scope.js'
import { earlyAnswer, type Progress } from './early-answer.js'
import { pathOf, SentFingerprint } from './fingerprint-request.js'
import {
  type LoggedRequest,
  logNotAccepted,
  logOutcome,
  logThrown,
  logThrownByEngine,
  logUnusedTransaction,
} from './log-outcome.js'
import { nameOfRoute } from './name-of-route.js'
import type { RouteSettings } from './route-settings.js'
import type { Problem } from './problems.js'
import type { PawlRequest } from './pawl-request.js'
import { readKey } from './read-key.js'
import { readPrefer } from './read-prefer.js'
import { unsuitableKey } from './unsuitable-key.js'
import { judgeSentAt } from './judge-sent-at.js'
import { checkRetention } from './sent-at.js'
import { type AnsweredKey, sendAnswer } from './send-answer.js'
import { type AskEngine, awaitOutcome, type Wait } from './await-outcome.js'
import { originOf, statusBelow } from './status-address.js'
import { keyOfRoute } from './stored-key.js'
import { WaitingRoom } from './waiting-room.js'

/** One request to a marked route, from the parsed body to the answer. */
export class HandledRequest implements PawlRequest {
  readonly #request: FastifyRequest
  readonly #reply: FastifyReply
  readonly #route: RouteSettings
  readonly #fingerprint: SentFingerprint
  #key: AnsweredKey | null = null
  #atomic: AtomicRun | null = null
  /** Null when the client gets no answer before the pipeline has run. */
  #later: Later | null = null
  #progress: Progress = 'idle'

  /** Called before validation, when everything is still as the client sent it. */
  constructor(request: FastifyRequest, reply: FastifyReply, route: RouteSettings) {
    this.#request = request
    this.#reply = reply
    this.#route = route
    this.#fingerprint = new SentFingerprint(request, route)
  }

  get key(): string {
    return this.#takenKey.key
  }

  get write(): Write {
    return this.atomicTransaction.write
  }

  get stage(): Stage {
    return this.atomicTransaction.stage
  }

  /** What an atomic handler works with. */
  get atomicTransaction(): NonNullable<ReturnType<AtomicRun['transaction']>> {
    const transaction = this.#atomic?.transaction() ?? null
    if (transaction !== null) return transaction
    const told =
      this.#atomic === null
        ? 'is not atomic: request.tx, request.pawl.write and request.pawl.stage are for routes with idempotency: { atomic: true }'
        : 'used request.tx, request.pawl.write or request.pawl.stage after its handler had returned or been rolled back: await every query ' +
          '(forEach(async …) does not)'
    throw new PawlError('PAWL_NOT_ATOMIC', `${this.#name} ${told}.`)
  }

  /** Refuses what is nested too deeply, before validation can overflow the stack. Returns null when it may go on. */
  refuseTooDeep(): Promise<void> | null {
    const { tooDeep } = this.#fingerprint
    return tooDeep === null ? null : this.#refuse(tooDeep)
  }

  /** Takes the key just before the handler is called, or answers why not. Returns null when the handler should go on. */
  takeKey(): Promise<void> | null {
    const { engine, header } = this.#route.plugin
    const read = readKey(this.#request.raw.rawHeaders, header)
    switch (read.type) {
      case 'given': {
        // What is passed to the engine may be a hash of it. The keys made here are random.
        const suspicion = judgeKey(engine, read.key)
        if (suspicion !== null) return this.#refuse(unsuitableKey(header, suspicion))
        this.#key = { key: read.key, generated: false }
        break
      }
      case 'unusable':
        return this.#refuse(read.problem)
      case 'absent': {
        const detail = `Send the header ${header} with a key of your own, and the same one with every retry.`
        if (this.#keyIsRequired) return this.#refuse({ code: 'idempotency_key_missing', detail })
      }
    }
    const untimely = this.#judgeTime(read.type === 'given')
    if (untimely !== null) return this.#refuse(untimely)
    this.#key ??= { key: `generated-${randomUUID()}`, generated: true }
    this.#progress = 'handling'
    return null
  }

  failed(): void {
    if (this.#progress !== 'answered') this.#progress = 'failed'
  }

  // A function of its own, so that `const { run } = request.pawl` works.
  readonly run: PawlRequest['run'] = async (pipeline, input) => {
    const { engine } = this.#route.plugin
    if (this.#atomic !== null) {
      throw new PawlError(
        'PAWL_SECOND_RUN',
        `${this.#name} is atomic: its handler is the transaction. Use request.tx, or remove atomic to run a pipeline.`,
      )
    }
    this.#checkSentAt(pipeline)
    if (input === undefined && this.#request.body === undefined)
      return this.#refuse({ code: 'invalid_input', detail: 'This request has no content.' })
    const owner = await this.#findOwner()
    if (owner === null) return
    const chosen = this.#chosenBy(pipeline, input)
    const identity = await this.#identify(owner, nameOf(pipeline), chosen?.fingerprint)
    if (identity === null) return
    const { fingerprint } = identity
    const named = nameOfKey(identity)
    // Without a fingerprint, the engine asks the pipeline again, and can tell whether the input or the function is to
    // blame.
    const request =
      chosen === null
        ? { ...named, input }
        : { ...named, fingerprint: new OriginFingerprint(this.#origin, fingerprint) as never, input }
    const later = this.#readPreference()
    this.#later = later
    const ask: AskEngine =
      later === null
        ? (found) => executeFound(engine, pipeline, request, found)
        : askLater((found) => enqueueFound(engine, pipeline, request, found), later)
    return this.#answerFrom(ask, identity)
  }

  /** Runs an atomic handler in the transaction that stores its answer. */
  async runAtomic(pipeline: AtomicPipeline, handler: () => unknown): Promise<void> {
    const { engine, storedHeaders } = this.#route.plugin
    const atomic = new AtomicRun(this.#reply, handler, storedHeaders)
    this.#atomic = atomic
    const owner = await this.#findOwner()
    if (owner === null) return
    const identity = await this.#identify(owner, pipeline.name, undefined)
    if (identity === null) return
    const { fingerprint } = identity
    const request = { ...nameOfKey(identity), fingerprint, input: null }
    await this.#answerFrom(
      (found) => atomic.through(() => executeAtomic(engine, pipeline, request, found)),
      identity,
    )
  }

  /** The error to report if what is about to be sent is not the pipeline's answer; null where it may be sent. */
  checkAnswer(): PawlError | null {
    return earlyAnswer(this.#progress, this.#name, this.#atomic !== null)
  }

  /** A copy of an error for the log. */
  safeError(error: unknown): Error {
    return this.#route.plugin.safeError(error)
  }

  /** Whether to refuse an answer that is not the pipeline's. One given too early is always wrong. */
  get refusesOtherAnswers(): boolean {
    return this.#route.plugin.strict || this.#progress === 'running'
  }

  /** Why the time at which the request was first sent will not do; null where it does, or nobody asks. */
  #judgeTime(hasKey: boolean): Problem | null {
    const { sentAt } = this.#route
    if (sentAt === null) return null
    return judgeSentAt(this.#request.raw.rawHeaders, sentAt, { hasKey, nowMs: Date.now() })
  }

  /** Which pipelines a route runs is known only here. Noticed in development, it harms nobody. */
  #checkSentAt<DB, Input>(pipeline: Pipeline<DB, Input>): void {
    const { sentAt, plugin, name } = this.#route
    if (sentAt !== null && plugin.strict) checkRetention(name, sentAt, retentionMsOf(plugin.engine, pipeline))
  }

  /** Asks the application who sent the request. Returns null when that failed and has been answered. */
  async #findOwner(): Promise<Owner | null> {
    if (this.#progress === 'running' || this.#progress === 'answered')
      throw new PawlError('PAWL_SECOND_RUN', `The handler of ${this.#name} ran a second pipeline.`)
    // A handler that has no key yet is called too early.
    void this.#takenKey
    this.#progress = 'running'
    try {
      const { scope, bindTo } = this.#route.plugin
      const owner = { scope: await scope(this.#request) }
      return bindTo === null ? owner : { ...owner, bindTo: await bindTo(this.#request) }
    } catch (error) {
      await this.#handOver(error)
      return null
    }
  }

  /** What the pipeline says makes two requests the same, if the route does not. Returns null when its function failed. */
  #chosenBy<DB, Input>(
    pipeline: Pipeline<DB, Input>,
    input: NoInfer<Input>,
  ): { readonly fingerprint: JsonValue | undefined } | null {
    if (this.#route.fingerprint !== null) return { fingerprint: undefined }
    try {
      return { fingerprint: chosenFingerprint(pipeline, input) }
    } catch {
      return null
    }
  }

  /** Distinguishes the request from all others. Returns null when that is not possible and has been answered. */
  async #identify(owner: Owner, pipeline: string, chosen: JsonValue | undefined): Promise<Identity | null> {
    const { key: sentKey, generated: generatedKey } = this.#takenKey
    try {
      const sent = this.#fingerprint.get(chosen)
      if (sent.type === 'refused') {
        await this.#refuse(sent.problem)
        return null
      }
      const scope = checkScope(owner.scope, this.#name)
      const key = this.#storedKey(sentKey)
      const keyHash = hashKeyName(this.#route.plugin.engine, scope, key)
      const bindTo = 'bindTo' in owner ? checkBinding(owner.bindTo, this.#name) : null
      return {
        scope,
        key,
        bindTo,
        fingerprint: sent.fingerprint,
        logged: { keyHash, pipeline, generatedKey },
      }
    } catch (error) {
      await this.#answerError(error)
      return null
    }
  }

  /** Asks the engine for the outcome, repeatedly while somebody else runs the key, and answers with it. */
  async #answerFrom(ask: AskEngine, identity: Identity): Promise<void> {
    const { logged } = identity
    let outcome: Answerable
    try {
      outcome = await awaitOutcome(ask, this.#waitFor(identity))
    } catch (error) {
      return this.#answerError(error)
    }
    if (this.#atomic !== null) this.#leaveAtomic(this.#atomic, outcome, logged)
    logOutcome(this.#route.plugin, this.#request.log, logged, outcome)
    return this.#answer(answerTo(outcome))
  }

  /** Throws what the handler threw, for the application to answer. Otherwise an incomplete run leaves no trace in the reply. */
  #leaveAtomic({ head, used }: AtomicRun, outcome: Answerable, logged: LoggedRequest): void {
    const thrown = errorOfHandler(outcome)
    if (thrown === null) {
      if (outcome.type !== 'completed') restoreHead(this.#reply, head)
      else if (!used && outcome.response.status < 400 && this.#route.plugin.strict)
        logUnusedTransaction(this.#request.log, this.#name)
      return
    }
    this.#progress = 'failed'
    logThrown(this.#request.log, logged)
    // What the handler set was meant for an answer that is not given.
    restoreHead(this.#reply, { ...head, status: thrown.status })
    throw thrown.error
  }

  /** How the request is enqueued; null where it runs while the client waits. */
  #readPreference(): Later | null {
    const { respondAsync, plugin } = this.#route
    if (respondAsync === 'never' || plugin.respondAsync === null) return null
    const preferences = readPrefer(this.#request.headers['prefer'])
    if (respondAsync === 'preferred' && !preferences.respondAsync) return null
    const waitMs = Math.min(preferences.waitMs, plugin.respondAsync.maxWaitMs)
    const statusUrl = statusBelow(pathOf(this.#request.originalUrl), this.#route.statusSuffix)
    return { statusUrl, isPreferred: preferences.respondAsync, waitMs }
  }

  #waitFor({ scope, key }: Identity): Wait {
    const { engine, waitersPerScope } = this.#route.plugin
    return {
      enter: () => WaitingRoom.of(engine).enter({ scope, key }, waitersPerScope),
      waitMs: this.#later?.waitMs ?? this.#route.waitMs,
      onceGone: (listener) => this.#onceGone(listener),
    }
  }

  #onceGone(listener: () => void): () => void {
    const { raw } = this.#reply
    // With HTTP/2, it is the stream that ends.
    const { stream } = raw as { readonly stream?: { readonly destroyed: boolean } }
    if (raw.destroyed || stream?.destroyed === true) listener()
    raw.once('close', listener)
    return () => raw.off('close', listener)
  }

  async #refuse(problem: Problem): Promise<void> {
    logNotAccepted(this.#request.log, this.#name, problem.code)
    await this.#answer({ type: 'problem', problem })
  }

  /** The application answers an error such as 403. Sent from here, as a handler may have forgotten to return `run`. */
  async #handOver(error: unknown): Promise<void> {
    this.#progress = 'failed'
    await this.#reply.send(error instanceof Error ? error : new Error(String(error)))
  }

  /** What the engine throws means wrong use: the client learns no more than that. */
  async #answerError(error: unknown): Promise<void> {
    const problem = problemOf(error)
    logThrownByEngine(this.#route.plugin, this.#request.log, this.#name, problem.code, error)
    await this.#answer({ type: 'problem', problem })
  }

  async #answer(answer: Answer): Promise<void> {
    this.#progress = 'answered'
    await sendAnswer(this.#reply, this.#route.plugin, answer, {
      key: this.#key,
      // Nobody can ask for a replay under a key that the client did not choose.
      canAskAgain: this.#key?.generated === false,
      // Even where the answer is always a 202: `wait` may turn it into the response.
      dependsOnPrefer: this.#route.respondAsync !== 'never',
      changes: false,
    })
  }

  #storedKey(key: string): string {
    const { method, routeOptions } = this.#request
    const { keyScope, constraints } = this.#route
    return keyScope === 'account' ? key : keyOfRoute(method, routeOptions.url ?? '', constraints, key)
  }

  get #origin(): string {
    return originOf(this.#route.origin, this.#request)
  }

  get #keyIsRequired(): boolean {
    return this.#route.required ?? isKeyRequired(this.#request.method)
  }

  get #takenKey(): AnsweredKey {
    if (this.#key !== null) return this.#key
    throw new PawlError(
      'PAWL_ROUTE_NOT_MARKED',
      `request.pawl of ${this.#name} can be used only in its handler: the key is read after the hooks.`,
    )
  }

  get #name(): string {
    return nameOfRoute(this.#request)
  }
}

/** If it is not a pipeline, the engine refuses it. */
function nameOf(pipeline: { readonly name: string } | undefined): string {
  return pipeline?.name ?? 'unknown'
}

/** What the application's functions returned. `bindTo` is there only where keys are bound. */
interface Owner {
  readonly scope: unknown
  readonly bindTo?: unknown
}

function nameOfKey({ scope, key, bindTo }: Identity) {
  return bindTo === null ? { scope, key } : { scope, key, bindTo }
}

/** What distinguishes one request from all others, and what the log says about it. */
interface Identity {
  readonly scope: string
  readonly key: string
  /** Null where keys are not bound. */
  readonly bindTo: string | null
  readonly fingerprint: JsonValue
  readonly logged: LoggedRequest
}

/** The methods that HTTP does not promise to be idempotent. */
export function isKeyRequired(method: string): boolean {
  return method === 'POST' || method === 'PATCH'
}
