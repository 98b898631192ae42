import type { FastifyInstance } from 'fastify'
import type { Opened } from '../contender.js'
import { openHttpClient } from '../run/http-client.js'
import { RIDE_ROUTE } from './ride-route.js'

/** Puts an application with the ride route on a real socket. `closeRest` closes what the route works with. */
export async function listenForRides(
  app: FastifyInstance,
  closeRest: () => Promise<void>,
): Promise<Opened & { readonly url: string }> {
  const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}${RIDE_ROUTE}`
  const client = openHttpClient(url)
  return {
    url,
    request: (key) => client.request(key),
    async close() {
      await client.close()
      await app.close()
      await closeRest()
    },
  }
}
