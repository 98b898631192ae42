import fastifyPawl from '@pawl/fastify'
import Fastify from 'fastify'
import { RIDE } from '../business.js'
import type { Contender, Opened } from '../contender.js'
import { openHttpClient } from '../run/http-client.js'
import { openEngine, prepareSchema, type RideInput } from './pawl.js'
import { KEEP_ALIVE_MS, RIDE_ROUTE, rideBody } from './ride-route.js'

const SCHEMA = 'bench_pawl_fastify'

/** The same pipeline behind a route, on a real socket. */
export const pawlFastify: Contender = {
  name: 'pawl-fastify',
  title: 'Pawl through Fastify',

  prepare: (databaseUrl) => prepareSchema(databaseUrl, SCHEMA),

  async open(options): Promise<Opened> {
    const opened = openEngine(SCHEMA, options)
    const { engine, createRide } = opened
    const app = Fastify({ keepAliveTimeout: KEEP_ALIVE_MS })
    await app.register(fastifyPawl, { engine, scope: () => RIDE.scope })
    app.post<{ Body: RideInput }>(RIDE_ROUTE, { schema: { body: rideBody }, idempotency: true }, (request) =>
      request.pawl.run(createRide, request.body),
    )
    const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}${RIDE_ROUTE}`
    const client = openHttpClient(url)
    return {
      url,
      request: (key) => client.request(key),
      async close() {
        await client.close()
        await app.close()
        await opened.close()
      },
    }
  },
}
