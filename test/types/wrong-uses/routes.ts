import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastifyPawl from '@pawl/fastify'
import type { FastifyInstance } from 'fastify'
import { type Database, engine, right } from './database.js'

declare module '@pawl/core' {
  interface Register {
    database: Database
  }
}

interface Amount {
  amount: number
}

declare const app: FastifyInstance
declare const done: () => Promise<void>
const typed = app.withTypeProvider<TypeBoxTypeProvider>()
const amount = Type.Object({ amount: Type.Integer() })
const created = Type.Object({ id: Type.String() })
const empty = Type.Object({})
const text = Type.Object({ amount: Type.String() })

// The body has to fit the pipeline:

// error: Type 'string' is not assignable to type 'number'
typed.post('/a', { schema: { body: text }, idempotency: true }, ({ pawl, body }) => pawl.run(right, body))
// error: Property 'amount' is missing in type '{}'
typed.post('/a', { schema: { body: empty }, idempotency: true }, ({ pawl, body }) => pawl.run(right, body))
// error: Type 'string' is not assignable to type 'number'
app.post<{ Body: { amount: string } }>('/a', { idempotency: true }, ({ pawl, body }) => pawl.run(right, body))
// error: Argument of type 'unknown' is not assignable
app.post('/a', { idempotency: true }, (request) => request.pawl.run(right, request.body))
// error: Argument of type 'unknown' is not assignable
typed.post('/a', { idempotency: true }, (request) => request.pawl.run(right, request.body))
// error: Expected 2 arguments, but got 1
app.post('/a', { idempotency: true }, (request) => request.pawl.run(right))

// The option of a route:

// error: Type 'string' is not assignable to type 'RouteIdempotency<unknown, unknown>'
app.post('/a', { idempotency: 'yes' }, done)
// error: 'wait' does not exist in type
app.post('/a', { idempotency: { wait: true } }, done)
// error: Type '"global"' is not assignable to type 'KeyScope | undefined'
app.post('/a', { idempotency: { keyScope: 'global' } }, done)
// error: Type '"wait"' is not assignable to type 'OnConflict | undefined'
app.post('/a', { idempotency: { onConflict: 'wait' } }, done)
// error: Type 'string' is not assignable to type 'number'
app.post('/a', { idempotency: { onConflict: { waitMs: '1 s' } } }, done)
// error: Type '"sometimes"' is not assignable to type 'RespondAsync | undefined'
app.post('/a', { idempotency: { respondAsync: 'sometimes' } }, done)
// error: Type 'true' is not assignable to type 'RespondAsync | undefined'
app.post('/a', { idempotency: { respondAsync: true } }, done)
// error: Type 'boolean' is not assignable to type 'string'
app.post('/a', { idempotency: { exempt: true } }, done)

// The fingerprint is taken of the route's own body:

// error: Property 'price' does not exist on type '{ amount: number; }'
typed.put('/a', { schema: { body: amount }, idempotency: { fingerprint: ({ body }) => body.price } }, done)
// error: Property 'price' does not exist on type 'Amount'
app.post<{ Body: Amount }>('/a', { idempotency: { fingerprint: ({ body }) => body.price } }, done)
// error: 'body' is of type 'unknown'
app.post('/a', { idempotency: { fingerprint: ({ body }) => body.amount } }, done)
// error: Type 'undefined' is not assignable
app.post('/a', { idempotency: { fingerprint: () => undefined } }, done)

// Atomic handlers:

// error: Argument of type '"riders"' is not assignable
app.post('/a', { idempotency: { atomic: true } }, ({ tx }) => tx.selectFrom('riders').selectAll().execute())
// error: Argument of type '"riders"' is not assignable
typed.post('/a', { schema: { body: amount }, idempotency: { atomic: true } }, ({ tx }) =>
  tx.deleteFrom('riders').execute(),
)
// error: Property 'price' does not exist on type '{ amount: number; }'
typed.post('/a', { schema: { body: amount }, idempotency: { atomic: true } }, async ({ body }) => body.price)
// error: Property 'price' does not exist on type 'Amount'
app.post<{ Body: Amount }>('/a', { idempotency: { atomic: true } }, async ({ body }) => body.price)
// error: 'body' is of type 'unknown'
app.post('/a', { idempotency: { atomic: true } }, async ({ body }) => body.amount)
// error: 'retention' does not exist in type 'PipelineSettings'
app.post('/a', { idempotency: { atomic: { retention: 1 } } }, async () => 'x')
// error: Type '"strong"' is not assignable to type '"read committed" | "repeatable read" | "serializable" | undefined'
app.post('/a', { idempotency: { atomic: { isolation: 'strong' } } }, async () => 'x')
// error: a Date is not JSON: keep date.toISOString()
app.post('/a', { idempotency: { atomic: true } }, async (request) =>
  request.pawl.stage('send', { at: new Date() }),
)

// error: Type 'number' is not assignable to type 'string'
typed.post('/a', { schema: { response: { 200: created } }, idempotency: { atomic: true } }, async () => ({
  id: 5,
}))

// The options of the plugin:

// error: is missing the following properties from type 'FastifyPawlOptions': engine, scope
app.register(fastifyPawl)
// error: Property 'scope' is missing
app.register(fastifyPawl, { engine })
// error: Property 'engine' is missing
app.register(fastifyPawl, { scope: () => 'ann' })
// error: Type 'number' is not assignable to type 'string | Promise<string | null | undefined> | null | undefined'
app.register(fastifyPawl, { engine, scope: () => 5 })
// error: 'headers' does not exist
app.register(fastifyPawl, { engine, scope: () => 'ann', headers: 'x-key' })
// error: Type '"paypal"' is not assignable to type '"ietf" | "stripe" | undefined'
app.register(fastifyPawl, { engine, scope: () => 'ann', profile: 'paypal' })
// error: Type 'string' is not assignable to type 'boolean | RespondAsyncOptions | undefined'
app.register(fastifyPawl, { engine, scope: () => 'ann', respondAsync: 'always' })
// error: 'path' does not exist in type 'RespondAsyncOptions'
app.register(fastifyPawl, { engine, scope: () => 'ann', respondAsync: { path: '/operations' } })
