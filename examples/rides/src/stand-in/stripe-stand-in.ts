import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, Faults, isFault } from './faults.js'
import { Ledger } from './ledger.js'

interface Answer {
  readonly status: number
  readonly body: object
}

/** Long enough to be seen in the demo, and to be killed in. */
const SLOW_MS = 3_000

/** The least that a provider takes: without it, hardly any request is under way when a process is killed. */
const LATENCY_MS = 50

/** Enough of Stripe's HTTP API for its SDK: payment intents that are confirmed as they are created. */
export class StripeStandIn {
  readonly #ledger: Ledger
  readonly #faults = new Faults()
  /** The answer for each key, repeated for as long as the process lives. Stripe does so for 24 hours. */
  readonly #answers = new Map<string, { readonly parameters: string; readonly answer: Answer }>()

  constructor(ledgerFile: string) {
    this.#ledger = new Ledger(ledgerFile)
  }

  server(): Server {
    return createServer((request, response) => {
      this.#handle(request, response).catch((error: unknown) => {
        console.error(error)
        response.destroy()
      })
    })
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url = '/' } = request
    const { pathname, searchParams } = new URL(url, 'http://localhost')
    switch (`${method} ${pathname}`) {
      case 'POST /v1/payment_intents':
        return this.#charge(request, response)
      case 'GET /v1/payment_intents/search':
        return send(response, this.#search(searchParams.get('query') ?? ''))
      case 'GET /ledger':
        return send(response, { status: 200, body: this.#ledger.entries() })
      case 'POST /faults':
        return this.#addFaults(request, response)
      default:
        return send(
          response,
          failure(404, 'invalid_request_error', 'resource_missing', `No ${method} ${url} here.`),
        )
    }
  }

  async #addFaults(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const wanted: unknown = JSON.parse(await text(request))
    if (!Array.isArray(wanted) || !wanted.every(isFault))
      return send(response, { status: 400, body: { error: 'a list of faults is needed' } })
    this.#faults.add(wanted)
    return send(response, { status: 200, body: {} })
  }

  async #charge(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parameters = await text(request)
    const key = String(request.headers['idempotency-key'] ?? randomUUID())
    const known = this.#answers.get(key)
    if (known !== undefined) {
      if (known.parameters !== parameters) return send(response, KEY_REUSED)
      response.setHeader('idempotent-replayed', 'true')
      return send(response, known.answer)
    }
    const form = new URLSearchParams(parameters)
    const fault = form.get('payment_method') === 'pm_card_chargeDeclined' ? 'declined' : this.#faults.next()
    if (fault === 'timeout_before') return
    if (fault === 'error_before') return send(response, BROKEN)
    const answer = this.#execute(key, form, fault)
    this.#answers.set(key, { parameters, answer })
    if (fault === 'timeout_after') return
    await sleep(fault === 'slow' ? SLOW_MS : LATENCY_MS)
    return send(response, answer)
  }

  /** Understands the one query that the service asks. */
  #search(query: string): Answer {
    const [, wanted] = /^metadata\['reference'\]:'([^']*)'$/.exec(query) ?? []
    const data = this.#ledger.entries().filter(({ reference }) => reference === wanted)
    const found = data.map(({ id, amount, currency }) => intentOf(id, amount, currency, wanted ?? ''))
    return { status: 200, body: { object: 'search_result', data: found, has_more: false } }
  }

  #execute(key: string, form: URLSearchParams, fault: Fault | null): Answer {
    if (fault === 'declined') return DECLINED
    if (fault === 'stored_error') return BROKEN
    const id = `pi_${randomUUID().replaceAll('-', '').slice(0, 24)}`
    const amount = Number(form.get('amount'))
    const currency = form.get('currency') ?? ''
    const reference = form.get('metadata[reference]') ?? ''
    this.#ledger.append({
      id,
      idempotencyKey: key,
      amount,
      currency,
      reference,
      at: new Date().toISOString(),
    })
    return { status: 200, body: intentOf(id, amount, currency, reference) }
  }
}

/** A payment that has succeeded, as Stripe reports it. */
function intentOf(id: string, amount: number, currency: string, reference: string): object {
  return {
    id,
    object: 'payment_intent',
    amount,
    currency,
    status: 'succeeded',
    metadata: { reference },
  }
}

const BROKEN = failure(500, 'api_error', null, 'Something went wrong on our side.')
const DECLINED = failure(402, 'card_error', 'card_declined', 'Your card was declined.', 'generic_decline')
const KEY_REUSED = failure(
  400,
  'idempotency_error',
  null,
  'Keys for idempotent requests can only be used with the same parameters they were first used with.',
)

function failure(
  status: number,
  type: string,
  code: string | null,
  message: string,
  decline_code?: string,
): Answer {
  return { status, body: { error: { type, code, message, decline_code } } }
}

function send(response: ServerResponse, { status, body }: Answer): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'request-id': `req_${randomUUID().slice(0, 8)}`,
  })
  response.end(JSON.stringify(body))
}
