import type { ReplayCache } from '@pawl/core'
import fastifyPawl from '@pawl/fastify'
import Fastify from 'fastify'
import { RIDE, type RideInput } from '../business.js'
import type { Contender, Opened } from '../contender.js'
import { listenForRides } from './listen-for-rides.js'
import { FEWEST } from './pawl-fewest.js'
import { openEngine, prepareSchema } from './pawl.js'
import { KEEP_ALIVE_MS, RIDE_ROUTE, rideBody } from './ride-route.js'

/** A cache that is open, and how to close it. */
export interface OpenCache {
  readonly cache: ReplayCache
  readonly close: () => Promise<void>
}

/** The same pipeline, with fewest commits, behind a route, on a real socket. */
export function pawlFastifyIn(
  schema: string,
  name: string,
  title: string,
  openCache: () => Promise<OpenCache | null>,
): Contender {
  return {
    name,
    title,

    prepare: (databaseUrl) => prepareSchema(databaseUrl, schema),

    async open(options): Promise<Opened> {
      const cached = await openCache()
      const guards = cached === null ? {} : { cache: cached.cache }
      const opened = openEngine(schema, options, { ...FEWEST, guards })
      const { engine, createRide } = opened
      const app = Fastify({ keepAliveTimeout: KEEP_ALIVE_MS })
      await app.register(fastifyPawl, { engine, scope: () => RIDE.scope })
      app.post<{ Body: RideInput }>(
        RIDE_ROUTE,
        { schema: { body: rideBody }, idempotency: true },
        (request) => request.pawl.run(createRide, request.body),
      )
      return listenForRides(app, async () => {
        await opened.close()
        await cached?.close()
      })
    },
  }
}

export const pawlFastify = pawlFastifyIn(
  'bench_pawl_fastify',
  'pawl-fastify',
  'Pawl through Fastify',
  async () => null,
)
