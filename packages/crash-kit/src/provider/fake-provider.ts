import type { JsonValue } from '@pawl/core'
import { invalidOption } from '@pawl/core/internal'
import type { Effect } from './effect.js'
import {
  checkFindOptions,
  checkSendOptions,
  type EffectAnswer,
  findAt,
  type FindOptions,
  type SendOptions,
  sendTo,
} from './provider-client.js'
import type { ProviderControls } from './provider-controls.js'
import { RequestHandler } from './request-handler.js'
import { checkedRules, checkOptions, type FakeProviderOptions } from './provider-options.js'
import { ProviderServer } from './provider-server.js'
import { type ReceivedRequest, receivedRequestOf } from './received-request.js'

/**
 * A foreign service that the pipeline calls: a real HTTP server in this process, with a ledger of its own outside every database.
 */
export interface FakeProvider {
  /** Begins to listen. Does nothing if it already listens. The kit calls it, and so does the first `send`. */
  start(): Promise<void>
  /** Such as `http://127.0.0.1:41234`, for a client of your own. Throws before `await provider.start()`. */
  readonly url: string
  /**
   * Requests a side effect, over a real connection. Throws `ProviderError` for a status of 400 and above, and whatever Node throws
   * when there is no answer, or none that can be read.
   */
  send(body: JsonValue, options?: SendOptions): Promise<EffectAnswer>
  /** Returns what was answered for the effect under a key; null if there is none. For `reconcile`. */
  find(idempotencyKey: string, options?: FindOptions): Promise<EffectAnswer | null>
  /** The effects that really happened. */
  readonly ledger: readonly Effect[]
  /** Everything that arrived, executed or not. */
  readonly requests: readonly ReceivedRequest[]
  /** Ends every connection. The ledger can still be read. */
  close(): Promise<void>
}

/**
 * Stands in for whatever the pipeline calls: a payment provider's SDK, `fetch`, axios. It deduplicates on idempotency
 * keys as real ones do, keeps a ledger of what really happened, and misbehaves when a fault of the kit makes it.
 *
 * @example
 * const provider = fakeProvider()
 * const call = ({ state, idempotencyKey, signal }) => provider.send({ amount: state.amount }, { idempotencyKey, signal })
 *
 * @example
 * // A client of your own, here Stripe's, and answers in the shape it expects:
 * const provider = fakeProvider({
 *   answer: ({ id, form }) => ({ body: { id, object: 'payment_intent', amount: Number(form.get('amount')) } }),
 * })
 * await provider.start()
 * const { hostname: host, port } = new URL(provider.url)
 * const stripe = new Stripe('sk_test', { host, port, protocol: 'http', maxNetworkRetries: 0 })
 */
export function fakeProvider(options: FakeProviderOptions = {}): FakeProvider {
  return new RunningProvider(options)
}

/** Returns what the kit, and not its users, can do with a provider. */
export function controlsOf(provider: FakeProvider): ProviderControls {
  checkOptions('crashKit', (owner) => {
    if (!(provider instanceof RunningProvider))
      throw invalidOption(owner, 'provider', provider, 'what fakeProvider() returns')
  })
  return (provider as RunningProvider).handler
}

class RunningProvider implements FakeProvider {
  readonly handler: RequestHandler
  readonly #server: ProviderServer

  constructor(options: FakeProviderOptions) {
    this.handler = new RequestHandler(checkedRules(options))
    this.#server = new ProviderServer((request, response) => this.handler.receive(request, response))
  }

  start(): Promise<void> {
    return this.#server.start()
  }

  get url(): string {
    return this.#server.url
  }

  async send(body: JsonValue, options: SendOptions = {}): Promise<EffectAnswer> {
    checkSendOptions(options)
    return sendTo(await this.#server.reach(), body, options)
  }

  async find(idempotencyKey: string, options: FindOptions = {}): Promise<EffectAnswer | null> {
    checkFindOptions(idempotencyKey, options)
    return findAt(await this.#server.reach(), idempotencyKey, options)
  }

  get ledger(): readonly Effect[] {
    return [...this.handler.state.ledger]
  }

  get requests(): readonly ReceivedRequest[] {
    return this.handler.state.requests.map(receivedRequestOf)
  }

  close(): Promise<void> {
    return this.#server.close()
  }
}
