import { Agent, request } from 'node:http'
import { RIDE } from '../business.js'
import type { Answer, Opened } from '../contender.js'

/** Sends rides to a contender that listens, over connections that are kept. */
export function openHttpClient(url: string): Opened {
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity })
  const { hostname: host, port, pathname: path } = new URL(url)
  const { origin, target, amount } = RIDE
  const body = JSON.stringify({ origin, target, amount })
  const constant = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  return {
    request(key): Promise<Answer> {
      const headers = { ...constant, 'idempotency-key': key }
      return new Promise((resolve, reject) => {
        const sent = request({ agent, host, port, path, method: 'POST', headers }, (response) => {
          let text = ''
          response.setEncoding('utf8')
          response.on('data', (part: string) => (text += part))
          response.on('error', reject)
          response.on('end', () => resolve({ status: response.statusCode ?? 0, body: text }))
        })
        sent.on('error', reject)
        sent.end(body)
      })
    },
    async close() {
      agent.destroy()
    },
  }
}
