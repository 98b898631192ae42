import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { PawlError } from '../errors.js'
import { recordError } from './record-error.js'

/** A state-changing request that user code sent through `http`, `https`, `fetch` or undici. */
export interface ForeignRequest {
  /** POST, PUT, PATCH or DELETE. */
  readonly method: string
  /** The host; with `fetch` and undici, the origin, such as `https://api.example.com`. */
  readonly host: string
  /** With its query. */
  readonly path: string
}

/**
 * Strict mode with exceptions.
 *
 * @example
 * createEngine({ pool, pipelines, strict: { allow: ({ host }) => host.includes('metrics.internal') } })
 */
export interface StrictOptions {
  /** Exempts a request that is not a foreign side effect, such as one to a metrics agent. */
  readonly allow?: (request: ForeignRequest) => boolean
}

interface Watched {
  readonly by: StrictMode
  /** The phase of another engine inside which this engine's phase runs. */
  readonly outer: Watched | undefined
  readonly phase: string
  readonly kind: 'transaction' | 'call'
  readonly requests: ForeignRequest[]
}

/** One for all engines: Node carries each storage along with every promise, for as long as the process lives. */
const watchedPhase = new AsyncLocalStorage<Watched>()

const STATE_CHANGING = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

/**
 * Watches phases for foreign requests where none are allowed. The subscribers only record: throwing there would end the
 * process, and the request would go out all the same. The phase fails when it returns.
 */
export class StrictMode {
  readonly #isOn: boolean
  readonly #allow: (request: ForeignRequest) => boolean
  readonly #onHttp = (message: unknown): void => this.#record(() => fromHttp(message))
  readonly #onUndici = (message: unknown): void => this.#record(() => fromUndici(message))

  /** Turned off, it costs nothing: no subscription, and no context to carry along. */
  constructor(options: StrictOptions | null) {
    this.#allow = options?.allow ?? (() => false)
    this.#isOn = options !== null
    if (!this.#isOn) return
    subscribe('http.client.request.start', this.#onHttp)
    subscribe('undici:request:create', this.#onUndici)
  }

  get isOn(): boolean {
    return this.#isOn
  }

  close(): void {
    unsubscribe('http.client.request.start', this.#onHttp)
    unsubscribe('undici:request:create', this.#onUndici)
  }

  inTransaction<T>(phase: string, work: () => Promise<T>): Promise<T> {
    return this.#isOn ? this.#watch(phase, 'transaction', work) : work()
  }

  inCall<T>(phase: string, work: () => Promise<T>): Promise<T> {
    return this.#isOn ? this.#watch(phase, 'call', work) : work()
  }

  /** A second connection, asked for while the phase holds one, would be waited for forever once the pool is exhausted. */
  readonly refuseNestedCheckout = (): void => {
    const watched = this.#innermost()
    if (watched?.kind !== 'transaction') return
    throw new PawlError(
      'PAWL_NESTED_CHECKOUT',
      `Phase '${watched.phase}' used engine.db while its transaction was open. Use tx, which belongs to that transaction.`,
    )
  }

  async #watch<T>(phase: string, kind: Watched['kind'], work: () => Promise<T>): Promise<T> {
    const outer = watchedPhase.getStore()
    const watched: Watched = { by: this, outer, phase, kind, requests: [] }
    const value = await watchedPhase.run(watched, work)
    const [first, second] = watched.requests
    if (watched.kind === 'transaction' && first !== undefined) {
      throw new PawlError(
        'PAWL_FOREIGN_IN_TRANSACTION',
        `Phase '${watched.phase}' sent ${show(first)} while its transaction was open. It was sent, and a rollback cannot undo it. ` +
          'Move it into the call of a foreign phase, or exempt it with strict: { allow }.',
      )
    }
    if (second !== undefined) {
      throw new PawlError(
        'PAWL_SECOND_FOREIGN_REQUEST',
        `The call of phase '${watched.phase}' sent ${show(second)} after ${show(first as ForeignRequest)}: a crash between ` +
          "the two would leave only one. Give each a foreign phase of its own, and turn the SDK's own retries off.",
      )
    }
    return value
  }

  #record(read: () => ForeignRequest): void {
    const watched = this.#innermost()
    if (watched === undefined) return
    try {
      const request = read()
      if (STATE_CHANGING.has(request.method) && !this.#isAllowed(request)) watched.requests.push(request)
    } catch (error) {
      process.emitWarning(`strict mode: a request could not be read: ${recordError(error)}`)
    }
  }

  /** The phase of this engine that the caller runs in, if any. */
  #innermost(): Watched | undefined {
    let watched = watchedPhase.getStore()
    while (watched !== undefined && watched.by !== this) watched = watched.outer
    return watched
  }

  #isAllowed(request: ForeignRequest): boolean {
    try {
      return this.#allow(request)
    } catch (error) {
      process.emitWarning(`strict mode: the allow hook threw: ${recordError(error)}`)
      return false
    }
  }
}

function fromHttp(message: unknown): ForeignRequest {
  const { request } = message as { request: { method: string; host?: string; path: string } }
  return { method: request.method, host: request.host ?? '', path: request.path }
}

function fromUndici(message: unknown): ForeignRequest {
  const { request } = message as { request: { method: string; origin?: string | URL; path: string } }
  return { method: request.method, host: request.origin?.toString() ?? '', path: request.path }
}

function show(request: ForeignRequest): string {
  return `${request.method} ${request.host}${request.path.split('?')[0] ?? ''}`
}
