import { PawlError } from '@pawl/core'
import type { FastifyInstance } from 'fastify'
import { isLoopback } from './loopback.js'

/**
 * Has `app.listen` fail where others than this machine could reach the console. Every single request is checked as well: this is so that
 * a mistake is noticed at the start, and not by whoever finds the page.
 */
export function refuseToListen({ server }: FastifyInstance): void {
  // Before Fastify's own listener, which takes the server for started.
  server.prependListener('listening', () => {
    const address = server.address()
    if (typeof address === 'object' && isLoopback(address?.address)) return
    // Fastify's listener, which comes next, asks for the address.
    queueMicrotask(() => server.close())
    server.emit(
      'error',
      new PawlError(
        'PAWL_INVALID_OPTION',
        `register(consolePlugin): without authenticate, the console listens on loopback only, and this app listens on ${typeof address === 'string' ? address : (address?.address ?? 'nothing')}. Pass authenticate, or listen on 127.0.0.1.`,
      ),
    )
  })
}
