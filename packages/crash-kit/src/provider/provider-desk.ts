import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ProviderRequest } from '../history.js'
import { MAX_PROVIDER_BODY_BYTES } from '../limits.js'
import { type ArmedFault, ArmedFaults, type ArmOptions } from './armed-faults.js'
import { Books, type ProviderFailure } from './books.js'
import { refusal, type WireAnswer } from './fake-answer.js'
import { fakeRequestOf, isQuestion, whenReceived } from './fake-request.js'
import type { ProviderControls, RequestListener } from './provider-controls.js'
import { type Exchange, type ProviderFault, serve } from './provider-fault.js'
import type { ProviderRules } from './provider-options.js'
import { providerRequestOf, receivedRequestOf, recordOf, type RequestRecord } from './received-request.js'

const TOO_LARGE = refusal(413, 'too_large', `A body may have ${MAX_PROVIDER_BODY_BYTES} bytes.`)

/** Where requests arrive: each is written down, told to the kit, and served, well or badly. */
export class ProviderDesk implements ProviderControls {
  readonly #rules: ProviderRules
  readonly #faults = new ArmedFaults()
  /** Begun, and not answered yet. */
  readonly #open = new Set<ServerResponse>()
  #held: (() => void)[] = []
  #listener: RequestListener | null = null
  #books: Books

  constructor(rules: ProviderRules) {
    this.#rules = rules
    this.#books = new Books(rules)
  }

  get books(): Books {
    return this.#books
  }

  receive(incoming: IncomingMessage, response: ServerResponse): void {
    this.#open.add(response)
    response.on('close', () => this.#open.delete(response))
    whenReceived(incoming, (bytes, isTooLarge) => {
      const books = this.#books
      const record = recordOf(fakeRequestOf(incoming, bytes), books.requests.length + 1)
      const refused = isTooLarge ? TOO_LARGE : books.readKey(record)
      this.#tell(record, incoming)
      books.add(record)
      const exchange = this.#exchange(books, record, response)
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
    return this.#books.arrived(count)
  }

  onRequest(listener: RequestListener): () => void {
    this.#listener = listener
    return () => {
      if (this.#listener === listener) this.#listener = null
    }
  }

  history(): ProviderRequest[] {
    return this.#books.requests.map(providerRequestOf)
  }

  failures(): readonly ProviderFailure[] {
    return [...this.#books.failures]
  }

  reset(): void {
    this.#books = new Books(this.#rules)
    this.#faults.clear()
    this.#held = []
    for (const response of this.#open) response.destroy()
  }

  #tell(record: RequestRecord, { socket }: IncomingMessage): void {
    try {
      const from = { clientPort: socket.remotePort ?? null }
      record.attribution = this.#listener?.(receivedRequestOf(record), from) ?? record.attribution
    } catch (error) {
      this.#books.failed('onRequest', error)
    }
  }

  #exchange(books: Books, record: RequestRecord, response: ServerResponse): Exchange {
    return {
      process: () => books.process(record),
      send: (answer) => {
        record.status = answer.status
        // The client may use the connection again as soon as it has read the answer: from now on it is not ours to break.
        this.#open.delete(response)
        write(response, answer)
      },
      cut: () => response.destroy(),
      held: () => new Promise((go) => this.#held.push(go)),
    }
  }
}

function write(response: ServerResponse, { status, headers, bytes }: WireAnswer): void {
  response.statusCode = status
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  response.end(bytes)
}
