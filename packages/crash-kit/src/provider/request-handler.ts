import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ProviderRequest } from '../history.js'
import { MAX_PROVIDER_BODY_BYTES } from '../limits.js'
import { type ArmedFault, ArmedFaults, type ArmOptions } from './armed-faults.js'
import { ProviderState, type ProviderFailure } from './provider-state.js'
import { refusal, type WireAnswer } from './fake-answer.js'
import { fakeRequestOf, isQuestion, whenReceived } from './fake-request.js'
import type { ProviderControls, RequestListener } from './provider-controls.js'
import { type Exchange, type ProviderFault, serve } from './provider-fault.js'
import type { ProviderRules } from './provider-options.js'
import { providerRequestOf, receivedRequestOf, recordOf, type RequestRecord } from './received-request.js'

const TOO_LARGE = refusal(413, 'too_large', `A body may have ${MAX_PROVIDER_BODY_BYTES} bytes.`)
const CASE_OVER = refusal(400, 'case_over', 'The case that this request belongs to is over.')

/** Handles each request that arrives: reports it to the kit, records it, and serves it, with or without a fault. */
export class RequestHandler implements ProviderControls {
  readonly #rules: ProviderRules
  readonly #faults = new ArmedFaults()
  /** Responses that have not been sent yet. */
  readonly #open = new Set<ServerResponse>()
  #held: (() => void)[] = []
  #listener: RequestListener | null = null
  #state: ProviderState

  constructor(rules: ProviderRules) {
    this.#rules = rules
    this.#state = new ProviderState(rules)
  }

  get state(): ProviderState {
    return this.#state
  }

  receive(incoming: IncomingMessage, response: ServerResponse): void {
    this.#open.add(response)
    response.on('close', () => this.#open.delete(response))
    const state = this.#state
    whenReceived(incoming, (bytes, isTooLarge) => {
      // It began in a case that is over, and already has its answer.
      if (state !== this.#state) return
      const record = recordOf(fakeRequestOf(incoming, bytes), state.requests.length + 1)
      const refused = isTooLarge ? TOO_LARGE : state.readKey(record)
      this.#report(record, incoming)
      state.add(record)
      const exchange = this.#exchange(state, record, response)
      if (refused === null) void serve(exchange, this.#faults.take(isQuestion(record.request)))
      else exchange.send(refused)
    })
  }

  arm(fault: ProviderFault, options?: ArmOptions): ArmedFault {
    return this.#faults.arm(fault, options)
  }

  letGo(): void {
    const held = this.#held
    this.#held = []
    for (const go of held) go()
  }

  arrived(count: number): Promise<void> {
    return this.#state.arrived(count)
  }

  onRequest(listener: RequestListener): () => void {
    this.#listener = listener
    return () => {
      if (this.#listener === listener) this.#listener = null
    }
  }

  history(): ProviderRequest[] {
    return this.#state.requests.map(providerRequestOf)
  }

  failures(): readonly ProviderFailure[] {
    return [...this.#state.failures]
  }

  forgetKeys(): void {
    this.#state.forgetKeys()
  }

  reset(): void {
    this.#state = new ProviderState(this.#rules)
    this.#faults.clear()
    this.#held = []
    // Answers instead of breaking the connection: some SDKs would then send the request again, into the next case.
    for (const response of this.#open) write(response, CASE_OVER)
  }

  #report(record: RequestRecord, { socket }: IncomingMessage): void {
    try {
      const from = { clientPort: socket.remotePort ?? null }
      record.attribution = this.#listener?.(receivedRequestOf(record), from) ?? record.attribution
    } catch (error) {
      this.#state.failed('onRequest', error)
    }
  }

  #exchange(state: ProviderState, record: RequestRecord, response: ServerResponse): Exchange {
    return {
      process: () => state.process(record),
      send: (answer) => {
        record.status = answer.status
        write(response, answer)
      },
      cut: () => response.destroy(),
      held: () => new Promise((go) => this.#held.push(go)),
    }
  }
}

function write(response: ServerResponse, { status, headers, bytes }: WireAnswer): void {
  // The end of the case may have answered already. The first answer counts.
  if (response.headersSent) return
  response.statusCode = status
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  response.end(bytes)
}
