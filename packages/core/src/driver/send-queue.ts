import type { PoolClient, QueryResult } from 'pg'
import { STATEMENTS_PER_DEADLINE } from '../limits.js'
import type { Executed, OnAnswered } from './pg-protocol.js'
import type { Outgoing } from './outgoing.js'
import type { Probe } from './probe.js'
import type { ServerSigns } from './server-signs.js'
import type { Wire } from './wire.js'

/** Hands statements over, decides at the last moment whether they may go out, and is told how they were answered. */
export interface Sender {
  /** How long one message may take before the connection is given up, counted from when it goes out. */
  readonly deadlineMs: number
  /** Whether its message under way commits. */
  readonly isCommitting: boolean
  /** Called when a message's turn has come. Returns the error that keeps it from being sent, or null. */
  refusal(message: readonly Outgoing[]): unknown
  /** Called when a message goes out. */
  sending(statements: readonly Outgoing[]): void
  /** Called with the answer, or with the error that kept it from being sent. Returns the error to report, or null. */
  answered(error: unknown, results: readonly QueryResult[], executed: readonly Executed[]): unknown
}

/** Statements that belong together. If they cannot share a message, they go out one after the other. */
interface Exchange {
  readonly sender: Sender
  readonly statements: readonly Outgoing[]
  readonly together: boolean
  readonly resolve: (results: readonly QueryResult[]) => void
  readonly reject: (error: unknown) => void
  results: readonly QueryResult[]
}

/**
 * The one way to a server: statements go out in the order in which they were handed over, each message when the one before
 * it has been answered completely. Nothing overtakes, and whether a message may go out is decided when its turn has come,
 * by what the server last said about its transaction.
 *
 * The stages of an exchange, each with the method that begins it:
 * - waiting: `send` has taken it;
 * - current: `#startNext`, when the exchange before it is complete;
 * - for each of its messages: `#sendNextMessage`, then refused or sent (`#transmit`), then answered: `#keepResults`, or `#fail`;
 * - complete: `#complete` resolves or rejects what `send` returned.
 *
 * A test's probe may pause it before a message is sent and after it is answered (`#pauseAt`). Without a probe, each stage
 * follows in the same turn of the event loop.
 */
export class SendQueue {
  readonly #client: PoolClient
  readonly #wire: Wire
  readonly #probe: Probe | null
  readonly #onSilence: (deadlineMs: number) => void
  readonly #signs: ServerSigns | null
  #waiting: Exchange[] = []
  #current: Exchange | null = null
  #closed: { readonly error: unknown } | null = null
  #timer: NodeJS.Timeout | undefined
  #isPaused = false
  #isHandlingAnswer = false
  /** The place that a probe is told about. */
  place: string

  constructor(
    client: PoolClient,
    wire: Wire,
    place: string,
    probe: Probe | null,
    onSilence: (deadlineMs: number) => void,
    signs: ServerSigns | null = null,
  ) {
    this.#client = client
    this.#wire = wire
    this.place = place
    this.#probe = probe
    this.#onSilence = onSilence
    this.#signs = signs
  }

  get isIdle(): boolean {
    return this.#current === null
  }

  /** Whether the message under way commits. */
  get isCommitting(): boolean {
    return this.#current?.sender.isCommitting === true
  }

  /** Whether these statements can share a message. */
  canJoin(statements: readonly Outgoing[]): boolean {
    return this.#wire.sendTogether !== null && statements.every(isJoinable)
  }

  /** Hands statements over. Those after a failed one are not executed. */
  send(sender: Sender, statements: readonly Outgoing[]): Promise<readonly QueryResult[]> {
    return new Promise((resolve, reject) => {
      const together = this.canJoin(statements)
      const exchange: Exchange = { sender, statements, together, resolve, reject, results: NONE }
      this.#waiting.push(exchange)
      if (this.#current === null) this.#startNext()
    })
  }

  /** Refuses everything that a sender has handed over and that has not gone out yet. */
  drop(sender: Sender, error: unknown): void {
    const dropped = this.#waiting.filter((exchange) => exchange.sender === sender)
    if (dropped.length === 0) return
    this.#waiting = this.#waiting.filter((exchange) => exchange.sender !== sender)
    for (const { reject } of dropped) reject(error)
  }

  /** Fails what is under way and everything to come: the connection is gone. */
  close(error: unknown): void {
    if (this.#closed !== null) return
    this.#closed = { error }
    const waiting = this.#waiting
    this.#waiting = []
    const current = this.#current
    // An exchange that a test has paused finds out when it goes on; one whose answer is being handled finds out from that.
    if (current !== null && !this.#isPaused && !this.#isHandlingAnswer)
      this.#complete(current, current.sender.answered(error, NONE, NONE))
    for (const { reject } of waiting) reject(error)
  }

  #startNext(): void {
    while (this.#current === null) {
      const exchange = this.#waiting.shift()
      if (exchange === undefined) return
      this.#current = exchange
      this.#sendNextMessage(exchange)
    }
  }

  /** Sends the next message of an exchange, or ends it. */
  #sendNextMessage(exchange: Exchange): void {
    const { statements, together, results } = exchange
    const done = results.length
    if (done === statements.length && done > 0) {
      this.#complete(exchange, null)
      return
    }
    const message = together ? statements : statements.slice(done, done + 1)
    if (this.#probe === null) this.#transmit(exchange, message)
    else this.#pauseAt('before', message, exchange, () => this.#transmit(exchange, message))
  }

  #transmit(exchange: Exchange, message: readonly Outgoing[]): void {
    const { sender, together } = exchange
    const refusal = this.#closed?.error ?? sender.refusal(message)
    if (refusal !== null) {
      this.#complete(exchange, refusal)
      return
    }
    sender.sending(message)
    const deadlineMs = sender.deadlineMs * deadlinesOf(message)
    let answered = false
    const onDeadline = (): void => {
      // If the event loop stood still, what may have arrived has not been read yet.
      setImmediate(() => {
        if (!answered && this.#current === exchange) this.#onSilence(deadlineMs)
      })
    }
    const timer = setTimeout(onDeadline, deadlineMs)
    this.#timer = timer
    const onAnswered: OnAnswered = (error, results, executed = NONE) => {
      if (answered || this.#current !== exchange) return
      answered = true
      clearTimeout(timer)
      this.#signs?.heard(error)
      this.#isHandlingAnswer = true
      const reported = sender.answered(error, results, executed)
      this.#isHandlingAnswer = false
      if (reported === null) this.#keepResults(exchange, message, results)
      else this.#fail(exchange, reported)
    }
    try {
      if (together) this.#wire.sendTogether?.(this.#client, message.map(configOf), onAnswered)
      else this.#wire.sendAlone(this.#client, configOf(message[0] as Outgoing), onAnswered)
    } catch (error) {
      onAnswered(error, NONE)
    }
  }

  #keepResults(exchange: Exchange, message: readonly Outgoing[], results: readonly QueryResult[]): void {
    exchange.results = exchange.together ? results : [...exchange.results, ...results]
    if (this.#probe === null) this.#continue(exchange)
    // No test can pause between the statements of one message.
    else this.#pauseAt('after', message.slice(-1), exchange, () => this.#continue(exchange))
  }

  #continue(exchange: Exchange): void {
    this.#sendNextMessage(exchange)
    this.#startNext()
  }

  #fail(exchange: Exchange, error: unknown): void {
    this.#complete(exchange, error)
    this.#startNext()
  }

  #complete(exchange: Exchange, error: unknown): void {
    if (this.#current !== exchange) return
    clearTimeout(this.#timer)
    this.#current = null
    if (error === null) exchange.resolve(exchange.results)
    else exchange.reject(error)
  }

  /** Goes on in the same turn, unless a test wants to pause here. */
  #pauseAt(
    when: 'before' | 'after',
    message: readonly Outgoing[],
    exchange: Exchange,
    goOn: () => void,
  ): void {
    let paused: Promise<void> | null
    try {
      paused = this.#pausedBy(when, message)
    } catch (error) {
      this.#failPaused(when, exchange, error)
      return
    }
    if (paused === null) {
      goOn()
      return
    }
    this.#isPaused = true
    const over = (then: () => void): void => {
      this.#isPaused = false
      then()
      this.#startNext()
    }
    paused.then(
      () => over(goOn),
      (error: unknown) => over(() => this.#failPaused(when, exchange, error)),
    )
  }

  /** An error that a test injects before a message keeps it from being sent. */
  #failPaused(when: 'before' | 'after', exchange: Exchange, error: unknown): void {
    const isSent = when === 'after'
    this.#fail(exchange, isSent ? error : (exchange.sender.answered(error, NONE, NONE) ?? error))
  }

  #pausedBy(when: 'before' | 'after', message: readonly Outgoing[]): Promise<void> | null {
    const probe = this.#probe
    if (probe === null) return null
    for (const [index, { step, stopsOnly = when }] of message.entries()) {
      const stopped =
        step === null || stopsOnly !== when ? undefined : probe({ phase: this.place, step, when })
      if (stopped !== undefined)
        return stopped.then(() => this.#pausedBy(when, message.slice(index + 1)) ?? undefined)
    }
    return null
  }
}

/** A statement of the application may take as long as it may alone. Those of the framework are small. */
function deadlinesOf(message: readonly Outgoing[]): number {
  const queries = message.filter(({ step }) => step === 'query').length
  return Math.max(1, queries) + Math.floor((message.length - queries) / STATEMENTS_PER_DEADLINE)
}

const NONE: readonly never[] = []
const isJoinable = ({ joinable }: Outgoing): boolean => joinable
const configOf = ({ config }: Outgoing): Outgoing['config'] => config
