import { randomUUID } from 'node:crypto'
import { type JsonValue, type Outcome, PawlError, type Pipeline, type Stage } from '@pawl/core'
import { executeUnlisted, hashName } from '@pawl/core/internal'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Answer, answerTo, answerToThrown } from './answer.js'
import {
  type AtomicPipeline,
  type AtomicRun,
  atomicRun,
  type AtomicTransaction,
  errorOfHandler,
} from './atomic.js'
import { headOf, restoreHead } from './capture-reply.js'
import { SentFingerprint } from './fingerprint-request.js'
import { FIRST_POLL_MS, MAX_POLL_MS } from './limits.js'
import { logOutcome } from './log-outcome.js'
import type { RouteSettings } from './options.js'
import { readKey } from './read-key.js'
import { type AnsweredKey, sendAnswer } from './send-answer.js'
import { keyOfRoute } from './stored-key.js'
import type { WaitingRoom } from './waiting-room.js'

/** `request.pawl`, on a marked route. */
export interface PawlRequest {
  /** The key this request runs under: the client's, or one that was made for it. */
  readonly key: string
  /** Hands a job over in the transaction of an atomic handler: it exists exactly when the handler's rows do. */
  readonly stage: Stage
  /**
   * Runs the pipeline under the client's key and answers: with its response, with the stored one, or with a problem.
   * Return what it gives, and answer nothing else.
   *
   * @example
   * app.post('/rides', { schema, idempotency: true }, (request) => request.pawl.run(createRide, request.body))
   */
  run<DB, Input>(pipeline: Pipeline<DB, Input>, input: NoInfer<Input>): Promise<void>
}

/** One request to a marked route, from the parsed body to the answer. */
export class HandledRequest implements PawlRequest {
  readonly #request: FastifyRequest
  readonly #reply: FastifyReply
  readonly #route: RouteSettings
  readonly #waitingRoom: WaitingRoom
  readonly #fingerprint: SentFingerprint
  #key: AnsweredKey | null = null
  #atomic: AtomicRun | null = null
  /** `idle` until the handler is called; `failed` when the answer is the error handler's. */
  #progress: 'idle' | 'handling' | 'running' | 'answered' | 'failed' = 'idle'

  /** Before validation: what the client sent is still as it was sent. */
  constructor(request: FastifyRequest, reply: FastifyReply, route: RouteSettings, waitingRoom: WaitingRoom) {
    this.#request = request
    this.#reply = reply
    this.#route = route
    this.#waitingRoom = waitingRoom
    this.#fingerprint = new SentFingerprint(request, route.fingerprint)
  }

  get key(): string {
    return this.#takenKey.key
  }

  get stage(): Stage {
    return this.atomicTransaction.stage
  }

  /** What an atomic handler works with. */
  get atomicTransaction(): AtomicTransaction {
    const transaction = this.#atomic?.transaction ?? null
    if (transaction !== null) return transaction
    throw new PawlError(
      'PAWL_NOT_ATOMIC',
      'request.tx and request.pawl.stage are there while an atomic handler runs: wrap the handler with app.atomic().',
    )
  }

  /** After all hooks of the route: takes the key, or answers why not. */
  async takeKey(): Promise<void> {
    const { header, profile } = this.#route.plugin
    const read = readKey(this.#request.raw.rawHeaders, header)
    switch (read.type) {
      case 'given':
        this.#key = { key: read.key, generated: false }
        return
      case 'unusable':
        return this.#answer({ type: 'problem', problem: read.problem })
      case 'absent':
        if (this.#keyIsRequired) {
          const detail = `Send the header ${header} with a key of your own, and the same one with every retry.`
          return this.#answer({ type: 'problem', problem: { code: 'idempotency_key_missing', detail } })
        }
        this.#key = { key: `generated-${randomUUID()}`, generated: true }
        if (!profile.echoesKey) this.#request.log.debug('no idempotency key: one was generated')
    }
  }

  handlerStarts(): void {
    this.#progress = 'handling'
  }

  failed(): void {
    if (this.#progress !== 'answered') this.#progress = 'failed'
  }

  async run<DB, Input>(pipeline: Pipeline<DB, Input>, input: NoInfer<Input>): Promise<void> {
    const { engine } = this.#route.plugin
    await this.#process(pipeline.name, (request) => engine.execute(pipeline, { ...request, input }))
  }

  /** Runs an atomic handler in the transaction that stores its answer. */
  async runAtomic(pipeline: AtomicPipeline, handler: () => unknown): Promise<void> {
    const { engine, storedHeaders } = this.#route.plugin
    const reply = this.#reply
    const atomic: AtomicRun = { reply, head: headOf(reply), handler, storedHeaders, transaction: null }
    this.#atomic = atomic
    await this.#process(pipeline.name, (request) =>
      atomicRun.run(atomic, () => executeUnlisted(engine, pipeline, { ...request, input: null })),
    )
  }

  /** Whether what is about to be sent may be: an error if it is not the pipeline's answer. */
  checkAnswer(): PawlError | null {
    switch (this.#progress) {
      case 'idle':
      case 'answered':
      case 'failed':
        return null
      case 'handling':
        return new PawlError(
          'PAWL_PIPELINE_NOT_RUN',
          `The handler of ${this.#name} answered without running its pipeline, so nothing protects it against a retry. ` +
            'Return request.pawl.run(…), throw an error, or take the idempotency option off the route.',
        )
      case 'running':
        return new PawlError(
          'PAWL_PIPELINE_NOT_RUN',
          `The handler of ${this.#name} answered while its pipeline was running. Return request.pawl.run(…).`,
        )
    }
  }

  /** Whether to refuse an answer that is not the pipeline's. One given too early is always wrong. */
  get refusesOtherAnswers(): boolean {
    return this.#route.plugin.strict || this.#progress === 'running'
  }

  async #process(pipeline: string, execute: Execute): Promise<void> {
    if (this.#progress === 'running' || this.#progress === 'answered') {
      throw new PawlError('PAWL_SECOND_RUN', `The handler of ${this.#name} ran a second pipeline.`)
    }
    const { key } = this.#takenKey
    this.#progress = 'running'
    const scope = await this.#route.plugin.scope(this.#request)
    let outcome: Outcome
    try {
      const sent = this.#fingerprint.get()
      if (sent.type === 'refused') return await this.#answer({ type: 'problem', problem: sent.problem })
      const { fingerprint } = sent
      const request = { scope: this.#checkScope(scope), key: this.#storedKey(key), fingerprint }
      const keyHash = hashName(request.scope, request.key)
      outcome = await this.#settle(keyHash, () => execute(request))
      logOutcome(this.#request.log, keyHash, pipeline, outcome)
    } catch (error) {
      const answer = answerToThrown(error)
      const level = answer.type === 'problem' && answer.problem.code === 'internal_error' ? 'error' : 'info'
      this.#request.log[level]({ err: error }, 'idempotent request refused')
      return this.#answer(answer)
    }
    const thrown = this.#atomic === null ? null : errorOfHandler(outcome)
    if (thrown !== null) {
      this.#progress = 'failed'
      // What the handler set was for an answer that we refuse; with its own errors, it stays as on a plain route.
      if (this.#atomic !== null && thrown.error instanceof PawlError)
        restoreHead(this.#reply, { ...this.#atomic.head, status: 500 })
      throw thrown.error
    }
    if (this.#atomic !== null && outcome.type !== 'completed') restoreHead(this.#reply, this.#atomic.head)
    return this.#answer(answerTo(outcome))
  }

  /** Asks again while another holder runs the key, for as long as the route waits. */
  async #settle(keyHash: string, ask: () => Promise<Outcome>): Promise<Outcome> {
    const until = performance.now() + this.#route.waitMs
    for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(pollMs * 2, MAX_POLL_MS)) {
      const outcome = await ask()
      const leftMs = until - performance.now()
      const clientIsGone = this.#reply.raw.destroyed
      if (outcome.type !== 'in_flight' || leftMs <= 0 || clientIsGone) return outcome
      // Jitter, so that a crowd of duplicates does not ask all at once.
      await this.#waitingRoom.news(keyHash, Math.min(leftMs, pollMs * (0.5 + Math.random() / 2)))
    }
  }

  async #answer(answer: Answer): Promise<void> {
    this.#progress = 'answered'
    await sendAnswer(this.#reply, this.#route.plugin, answer, this.#key)
  }

  #checkScope(scope: unknown): string {
    if (typeof scope === 'string' && scope !== '') return scope
    throw new PawlError(
      'PAWL_NO_SCOPE',
      `The scope function gave ${scope === '' ? 'an empty string' : String(scope)} for ${this.#name}, so nobody owns the ` +
        'key. Authenticate the request in a hook, and refuse it there if that fails.',
    )
  }

  #storedKey(key: string): string {
    const { method, routeOptions } = this.#request
    return this.#route.keyScope === 'account' ? key : keyOfRoute(method, routeOptions.url ?? '', key)
  }

  get #keyIsRequired(): boolean {
    return this.#route.required ?? isKeyRequired(this.#request.method)
  }

  get #takenKey(): AnsweredKey {
    if (this.#key !== null) return this.#key
    throw new PawlError(
      'PAWL_ROUTE_NOT_MARKED',
      `request.pawl of ${this.#name} is for its handler: the key is taken after the hooks.`,
    )
  }

  get #name(): string {
    return `${this.#request.method} ${this.#request.routeOptions.url ?? this.#request.url}`
  }
}

type Execute = (request: {
  readonly scope: string
  readonly key: string
  readonly fingerprint: JsonValue
}) => Promise<Outcome>

/** The methods that HTTP does not promise to be idempotent. */
export function isKeyRequired(method: string): boolean {
  return method === 'POST' || method === 'PATCH'
}
