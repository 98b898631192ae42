import { Agent, request } from 'node:http'

/** A charge at the provider. A type, not an interface: it is kept as JSON. */
type Charge = { readonly id: string }

/** What is charged, and for which ride. */
export interface ChargeRequest {
  readonly amount: number
  readonly ride: string
}

/** The provider's client. */
export interface Charges {
  charge(what: ChargeRequest, idempotencyKey: string, signal?: AbortSignal): Promise<Charge>
  /** Ends the connections to the provider. */
  close(): void
}

/** The header that says how long the stand-in should take. */
export const DELAY_HEADER = 'x-delay-ms'

/** The one HTTP call that all contenders make: plain `node:http`, connections kept, as many as there are calls. */
export function openCharges(providerUrl: string, delayMs: number): Charges {
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity })
  const url = new URL('/charges', providerUrl)
  const { hostname: host, port, pathname: path } = url
  return {
    charge({ amount, ride }, idempotencyKey, signal) {
      const body = JSON.stringify({ amount, ride })
      const headers = {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'idempotency-key': idempotencyKey,
        [DELAY_HEADER]: String(delayMs),
      }
      return new Promise((resolve, reject) => {
        const sent = request({ agent, host, port, path, method: 'POST', headers }, (response) => {
          let text = ''
          response.setEncoding('utf8')
          response.on('data', (part: string) => (text += part))
          response.on('error', reject)
          response.on('end', () => {
            if (response.statusCode === 200) resolve(JSON.parse(text) as Charge)
            else reject(new Error(`The provider answered ${response.statusCode}: ${text}`))
          })
        })
        sent.on('error', reject)
        // The same as `node:http`'s own option, which watches the stream's end as well, at half the cost of the request.
        signal?.addEventListener('abort', () => sent.destroy(signal.reason as Error), { once: true })
        sent.end(body)
      })
    },
    close() {
      agent.destroy()
    },
  }
}
