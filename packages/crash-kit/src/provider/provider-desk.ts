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
const CASE_OVER = refusal(400, 'case_over', 'The case that this request belongs to is over.')

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
    const books = this.#books
    whenReceived(incoming, (bytes, isTooLarge) => {
      // It began in a case that is over, and has its answer.
      if (books !== this.#books) return
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
    // Not broken: there are SDKs that send a request again whose connection broke, and it would come into the next case.
    for (const response of this.#open) write(response, CASE_OVER)
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
        write(response, answer)
      },
      cut: () => response.destroy(),
      held: () => new Promise((go) => this.#held.push(go)),
    }
  }
}

function write(response: ServerResponse, { status, headers, bytes }: WireAnswer): void {
  // By the end of a case, perhaps: the first answer counts.
  if (response.headersSent) return
  response.statusCode = status
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  response.end(bytes)
}
