import Fastify from 'fastify'
import type { RideInput } from '../business.js'
import type { Contender, Opened } from '../contender.js'
import { openPattern, preparePattern } from './hand-written.js'
import { listenForRides } from './listen-for-rides.js'
import { KEEP_ALIVE_MS, RIDE_ROUTE, rideBody } from './ride-route.js'

const SCHEMA = 'bench_hand_written_fastify'

/** The hand-written pattern behind a route, on a real socket: what Pawl through Fastify is compared with. */
export const handWrittenFastify: Contender = {
  name: 'hand-written-fastify',
  title: 'hand-written in plain pg, through Fastify',

  prepare: (databaseUrl) => preparePattern(databaseUrl, SCHEMA),

  async open(options): Promise<Opened> {
    const pattern = openPattern(SCHEMA, options)
    const app = Fastify({ keepAliveTimeout: KEEP_ALIVE_MS })
    app.post<{ Body: RideInput }>(RIDE_ROUTE, { schema: { body: rideBody } }, async (request, reply) => {
      const key = request.headers['idempotency-key']
      if (typeof key !== 'string') return reply.code(400).send({ error: 'no Idempotency-Key' })
      const { status, body } = await pattern.createRide(key, request.body)
      return reply.code(status).type('application/json; charset=utf-8').send(body)
    })
    return listenForRides(app, () => pattern.close())
  },
}
