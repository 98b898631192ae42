import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { Engine, Pipeline } from '@pawl/core'
import fastifyPawl from '@pawl/fastify'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { sql } from 'kysely'
import { authenticate } from './authenticate.js'
import { RideRequest, type RideInput } from './create-ride.js'
import type { Database } from './database.js'

/** What the routes need. */
export interface AppOptions {
  readonly engine: Engine<Database>
  readonly createRide: Pipeline<Database, RideInput>
  readonly logger: NonNullable<FastifyServerOptions['logger']>
  /** Null for the default of the plugin. */
  readonly waitersPerScope?: number | null
}

/** The API: its routes, and who may use them. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { engine, createRide, logger, waitersPerScope = null } = options
  const app = Fastify({ logger }).withTypeProvider<TypeBoxTypeProvider>()

  app.get('/healthz', async () => {
    await sql`SELECT 1`.execute(engine.db)
    return { status: 'ok' }
  })

  // Everything in here is for riders with a token.
  await app.register(async (riders) => {
    authenticate(riders, engine.db)
    await riders.register(fastifyPawl, {
      engine,
      scope: (request) => request.user?.id,
      enforce: 'error',
      // A rider may ask for 202 at once; the completer of `server.ts` does the rest.
      respondAsync: true,
      ...(waitersPerScope === null ? {} : { waitersPerScope }),
    })
    const typed = riders.withTypeProvider<TypeBoxTypeProvider>()

    typed.post('/rides', { schema: { body: RideRequest }, idempotency: true }, (request) =>
      request.pawl.run(createRide, request.body),
    )

    typed.get(
      '/rides/:id',
      { schema: { params: Type.Object({ id: Type.String({ format: 'uuid' }) }) } },
      async (request, reply) => {
        const ride = await engine.db
          .selectFrom('rides')
          .select([
            'id',
            'charge_id',
            'amount',
            'currency',
            'origin_lat',
            'origin_lon',
            'target_lat',
            'target_lon',
          ])
          .where('user_id', '=', request.user?.id ?? '')
          .where('id', '=', request.params.id)
          .executeTakeFirst()
        if (ride === undefined) return reply.code(404).send({ error: 'no such ride' })
        return { ...ride, status: ride.charge_id === null ? 'pending' : 'charged' }
      },
    )
  })

  return app
}
