import fastifyPawl from '@pawl/fastify'
import Fastify from 'fastify'
import { RIDE, type RideInput } from '../business.js'
import type { Contender, Opened } from '../contender.js'
import { listenForRides } from './listen-for-rides.js'
import { FEWEST } from './pawl-fewest.js'
import { openEngine, prepareSchema } from './pawl.js'
import { KEEP_ALIVE_MS, RIDE_ROUTE, rideBody } from './ride-route.js'

const SCHEMA = 'bench_pawl_fastify'

/** The same pipeline, with fewest commits, behind a route, on a real socket. */
export const pawlFastify: Contender = {
  name: 'pawl-fastify',
  title: 'Pawl through Fastify',

  prepare: (databaseUrl) => prepareSchema(databaseUrl, SCHEMA),

  async open(options): Promise<Opened> {
    const opened = openEngine(SCHEMA, options, FEWEST)
    const { engine, createRide } = opened
    const app = Fastify({ keepAliveTimeout: KEEP_ALIVE_MS })
    await app.register(fastifyPawl, { engine, scope: () => RIDE.scope })
    app.post<{ Body: RideInput }>(RIDE_ROUTE, { schema: { body: rideBody }, idempotency: true }, (request) =>
      request.pawl.run(createRide, request.body),
    )
    return listenForRides(app, () => opened.close())
  },
}
