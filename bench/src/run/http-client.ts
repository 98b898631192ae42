import { Agent, request } from 'node:http'
import { CREATED, rideInput } from '../business.js'
import type { Answer, Opened } from '../contender.js'

/**
 * Sends rides to a contender that listens, over connections that are kept. `createdStatus` is what it answers to a ride that
 * was created: it becomes 201.
 */
export function openHttpClient(url: string, createdStatus = CREATED): Opened {
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity })
  const { hostname: host, port, pathname: path } = new URL(url)
  const body = JSON.stringify(rideInput)
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
          response.on('end', () => {
            const { statusCode: status = 0 } = response
            resolve({ status: status === createdStatus ? CREATED : status, body: text })
          })
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
