import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { Engine, RegisteredDatabase } from '@pawl/core'
import fastifyPawl, { type AuditedRoute, type FastifyPawlOptions } from '@pawl/fastify'
import type { FastifyInstance, FastifyTypeProvider } from 'fastify'
import type { Transaction } from 'kysely'
import { describe, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { type Database, pipeline, type RideInput } from '../support/rides.js'

// The compiler does the work here: a mistake fails the build before this runs. The functions are never called.

const compiles = (
  _routes: (app: FastifyInstance, engine: Engine<Database>) => void | Promise<void>,
): void => {}

const createRide = pipeline<RideInput>({ name: 'typed', version: 1 }).finish(() => ({}) as never)
const Ride = Type.Object({ amount: Type.Integer(), note: Type.Optional(Type.String()) })
const Created = Type.Object({ id: Type.String() })

/** Declared as the type providers for zod are. */
interface ZodTypeProvider extends FastifyTypeProvider {
  readonly validator: this['schema'] extends z.ZodType ? z.output<this['schema']> : unknown
  readonly serializer: this['schema'] extends z.ZodType ? z.input<this['schema']> : unknown
}

interface RideBody {
  readonly amount: number
  readonly note?: string
}

describe('the body flows into the pipeline', () => {
  test('from a TypeBox schema', () => {
    compiles((app) => {
      const typed = app.withTypeProvider<TypeBoxTypeProvider>()
      typed.post('/a', { schema: { body: Ride }, idempotency: true }, (request) => {
        expectTypeOf(request.body).toEqualTypeOf<{ amount: number; note?: string }>()
        return request.pawl.run(createRide, request.body)
      })
      typed.route({
        method: 'POST',
        url: '/b',
        schema: { body: Ride },
        idempotency: { required: false },
        handler: (request) => request.pawl.run(createRide, request.body),
      })
    })
  })

  test('from a type argument', () => {
    compiles((app) => {
      app.post<{ Body: RideBody }>('/a', { idempotency: true }, (request) =>
        request.pawl.run(createRide, request.body),
      )
      app.post<{ Body: RideBody }>('/b', { idempotency: true }, async (request) => {
        expectTypeOf(request.body).toEqualTypeOf<RideBody>()
        await request.pawl.run(createRide, { amount: request.body.amount })
      })
    })
  })

  test('beside a typed response', () => {
    compiles((app) => {
      const typed = app.withTypeProvider<TypeBoxTypeProvider>()
      const schema = { body: Ride, response: { 201: Created } }
      typed.post('/a', { schema, idempotency: true }, (request) => request.pawl.run(createRide, request.body))
      typed.post('/b', { schema, idempotency: true }, async (request) => {
        await request.pawl.run(createRide, request.body)
      })
      typed.post('/c', { schema, idempotency: true }, async (request) =>
        request.pawl.run(createRide, request.body),
      )
      app.post<{ Body: RideBody; Reply: { id: string } }>('/d', { idempotency: true }, (request) =>
        request.pawl.run(createRide, request.body),
      )
      app.post<{ Body: RideBody; Reply: { 201: { id: string } } }>('/e', { idempotency: true }, (request) =>
        request.pawl.run(createRide, request.body),
      )
    })
  })
})

describe('fingerprint', () => {
  test('sees the body and query of a TypeBox schema', () => {
    compiles((app) => {
      const typed = app.withTypeProvider<TypeBoxTypeProvider>()
      typed.post(
        '/a',
        {
          schema: { body: Ride, querystring: Type.Object({ dry: Type.Boolean() }) },
          idempotency: {
            fingerprint: ({ body, query }) => {
              expectTypeOf(body).toEqualTypeOf<{ amount: number; note?: string }>()
              expectTypeOf(query).toEqualTypeOf<{ dry: boolean }>()
              return { amount: body.amount, dry: query.dry }
            },
          },
        },
        (request) => request.pawl.run(createRide, request.body),
      )
    })
  })

  test('sees what the client sends if a schema fills in defaults or transforms', () => {
    compiles((app) => {
      const schema = z.object({
        amount: z.number().default(5),
        at: z.string().transform((at) => new Date(at)),
      })
      const typed = app.withTypeProvider<ZodTypeProvider>()
      typed.post(
        '/a',
        {
          schema: { body: schema },
          idempotency: {
            fingerprint: ({ body }) => {
              expectTypeOf(body).toEqualTypeOf<{ amount?: number | undefined; at: string }>()
              return { amount: body.amount ?? 5 }
            },
          },
        },
        (request) => {
          expectTypeOf(request.body).toEqualTypeOf<{ amount: number; at: Date }>()
          return request.pawl.run(createRide, { amount: request.body.amount })
        },
      )
      typed.route({
        method: 'POST',
        url: '/b',
        schema: { body: schema },
        idempotency: {
          fingerprint: ({ body }) => {
            expectTypeOf(body.amount).toEqualTypeOf<number | undefined>()
            return body
          },
        },
        handler: (request) => request.pawl.run(createRide, { amount: request.body.amount }),
      })
    })
  })

  test('sees the body of a type argument', () => {
    compiles((app) => {
      app.post<{ Body: RideBody }>(
        '/a',
        {
          idempotency: {
            fingerprint: ({ body }) => {
              expectTypeOf(body).toEqualTypeOf<RideBody>()
              return body.amount
            },
          },
        },
        (request) => request.pawl.run(createRide, request.body),
      )
    })
  })
})

describe('an atomic handler', () => {
  test('sees the body of a TypeBox schema, and the registered database', () => {
    compiles((app) => {
      const typed = app.withTypeProvider<TypeBoxTypeProvider>()
      typed.post('/a', { schema: { body: Ride }, idempotency: { atomic: true } }, async (request, reply) => {
        expectTypeOf(request.body).toEqualTypeOf<{ amount: number; note?: string }>()
        expectTypeOf(request.tx).toEqualTypeOf<Transaction<Database>>()
        reply.code(201)
        await request.pawl.stage('send', { amount: request.body.amount })
        return request.tx
          .insertInto('audit')
          .values({ what: request.body.note ?? '' })
          .returning('id')
          .executeTakeFirstOrThrow()
      })
      typed.post(
        '/b',
        {
          schema: { body: Ride, response: { 201: Created } },
          idempotency: { keyScope: 'route', atomic: true },
        },
        async (request, reply) => {
          reply.code(201)
          return { id: `${request.body.amount}` }
        },
      )
    })
  })

  test('sees the body of a type argument', () => {
    compiles((app) => {
      app.post<{ Body: RideBody }>(
        '/a',
        { idempotency: { atomic: { isolation: 'serializable' } } },
        async (request) => {
          expectTypeOf(request.body).toEqualTypeOf<RideBody>()
          expectTypeOf(request.tx).toEqualTypeOf<Transaction<Database>>()
          return { amount: request.body.amount }
        },
      )
    })
  })

  test('sees the body in every form of a route, with an inline schema', () => {
    compiles((app) => {
      const typed = app.withTypeProvider<TypeBoxTypeProvider>()
      const idempotency = { atomic: true } as const
      typed.post(
        '/a',
        { schema: { body: Type.Object({ n: Type.Number() }) }, idempotency },
        async ({ body }) => {
          expectTypeOf(body).toEqualTypeOf<{ n: number }>()
        },
      )
      typed.post('/b', {
        schema: { body: Type.Object({ n: Type.Number() }) },
        idempotency,
        handler: async ({ body }) => expectTypeOf(body).toEqualTypeOf<{ n: number }>(),
      })
      typed.route({
        method: 'POST',
        url: '/c',
        schema: { body: Type.Object({ n: Type.Number() }) },
        idempotency,
        handler: async ({ body }) => expectTypeOf(body).toEqualTypeOf<{ n: number }>(),
      })
    })
  })
})

test('the types of what the plugin adds', () => {
  expectTypeOf<RegisteredDatabase>().toEqualTypeOf<Database>()
  expectTypeOf<FastifyInstance['idempotencyAudit']>().returns.toEqualTypeOf<readonly AuditedRoute[]>()
  compiles(async (app, engine) => {
    await app.register(fastifyPawl, { engine, scope: (request) => request.user })
    await app.register(fastifyPawl, {
      engine,
      scope: async (request) => request.headers.authorization,
      header: 'x-key',
      keyScope: 'route',
      onConflict: { waitMs: 1_000 },
      profile: 'stripe',
      enforce: 'error',
      storedHeaders: ['x-request-id'],
      respondAsync: {
        statusPath: '/operations',
        maxWaitMs: 0,
        onRequest: async (request, reply) => request.user ?? reply.code(401),
      },
    })
  })
  expectTypeOf<Pick<FastifyPawlOptions, 'engine'>>().toExtend<{ engine: Engine<any> }>()
})
