import swagger from '@fastify/swagger'
import fastifyPawl, { type FastifyPawlOptions } from '@pawl/fastify'
import Fastify, { type FastifyInstance, type RouteShorthandOptions } from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { idleEngine } from '../support/idle-engine.js'

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: object
}
interface Operation {
  readonly parameters?: readonly Parameter[]
  readonly responses: Record<string, { description: string; content?: Record<string, { schema: object }> }>
}

const handler = async () => ({ done: true })

/** An app with the plugin, @fastify/swagger, and the routes that `routes` declares. */
async function open(
  routes: (app: FastifyInstance) => void,
  options: Partial<FastifyPawlOptions> & { readonly swagger?: 'before' | 'after' } = {},
): Promise<FastifyInstance> {
  const { swagger: when = 'before', ...plugin } = options
  const app = Fastify()
  onTestFinished(() => app.close())
  const document = () => app.register(swagger, { openapi: { info: { title: 'Rides', version: '1.0.0' } } })
  if (when === 'before') await document()
  await app.register(fastifyPawl, { engine: idleEngine(), scope: () => 'ann', enforce: 'off', ...plugin })
  if (when === 'after') await document()
  routes(app)
  await app.ready()
  return app
}

function operationOf(app: FastifyInstance, url: string, method = 'post'): Operation {
  const document = app.swagger() as unknown as {
    openapi: string
    paths: Record<string, Record<string, Operation>>
  }
  expect(document.openapi).toMatch(/^3\./)
  return document.paths[url]?.[method] as Operation
}

/** What OpenAPI asks of every operation: each response has a description, and each parameter has one name and a schema. */
function expectSound({ parameters = [], responses }: Operation): void {
  for (const [status, { description, content }] of Object.entries(responses)) {
    expect(status).toMatch(/^(default|[1-5](\d\d|XX))$/)
    expect(description).toEqual(expect.any(String))
    for (const [type, { schema }] of Object.entries(content ?? {})) {
      expect(type).toMatch(/^[a-z]+\/[a-z+]+$/)
      expect(schema).toMatchObject({ type: expect.any(String) })
    }
  }
  const names = parameters.map(({ in: place, name }) => `${place} ${name.toLowerCase()}`)
  expect(new Set(names).size).toBe(names.length)
  for (const { schema } of parameters) expect(schema).toMatchObject({ type: expect.any(String) })
}

const keyOf = ({ parameters = [] }: Operation, name = 'idempotency-key') =>
  parameters.filter((parameter) => parameter.in === 'header' && parameter.name === name)

test('the time of the first attempt is documented where it is asked for', async () => {
  const sentAt = { maxAgeMs: 1_000, required: true }
  const app = await open(
    (server) => {
      server.post('/rides', { idempotency: true }, handler)
      server.put('/rides', { idempotency: true }, handler)
      server.post('/notes', { idempotency: { sentAt: false } }, handler)
    },
    { sentAt },
  )
  const shown = (url: string, method?: string) => keyOf(operationOf(app, url, method), 'idempotency-sent-at')
  expect(shown('/rides')).toMatchObject([{ schema: { type: 'string' }, required: true }])
  expect(shown('/rides', 'put')).toMatchObject([{ required: false }])
  expect(shown('/notes')).toEqual([])
})

describe.each(['before', 'after'] as const)('with @fastify/swagger registered %s the plugin', (when) => {
  test('a marked route documents its header and its problems', async () => {
    const app = await open(
      (server) => {
        server.post('/rides', { idempotency: true }, handler)
        server.put('/rides', { idempotency: true }, handler)
        server.post('/notes', { idempotency: { atomic: true } }, handler)
      },
      { swagger: when },
    )
    for (const [url, method, required] of [
      ['/rides', 'post', true],
      ['/rides', 'put', undefined],
      ['/notes', 'post', true],
    ] as const) {
      const operation = operationOf(app, url, method)
      expectSound(operation)
      expect(keyOf(operation)).toMatchObject([
        { schema: { type: 'string', minLength: 1, maxLength: 255 }, required: required ?? false },
      ])
      const { '2XX': success, 400: missing, 409: running, 422: reused, 503: later } = operation.responses
      expect(success).toEqual({ description: 'Default Response' })
      expect(missing?.description).toBe(
        required === true ? 'An idempotency key is required' : 'The idempotency key is not usable',
      )
      expect(running?.description).toBe('The request is being processed')
      expect(reused?.description).toBe('The idempotency key belongs to another request')
      expect(later?.description).toBe('The request could not be completed now')
      expect(reused?.content?.['application/problem+json']?.schema).toMatchObject({
        properties: { code: { type: 'string' }, title: { type: 'string' } },
      })
    }
  })

  test('a route that is not marked is left as it is', async () => {
    const app = await open(
      (server) => {
        server.post('/open', handler)
        server.post('/exempt', { idempotency: false }, handler)
      },
      { swagger: when },
    )
    for (const url of ['/open', '/exempt']) {
      expect(operationOf(app, url)).toEqual({ responses: { 200: { description: 'Default Response' } } })
    }
  })
})

test("the route's own headers, responses and descriptions stay", async () => {
  const own = { type: 'object', properties: { reason: { type: 'string' } } }
  const app = await open((server) => {
    const schema = {
      description: 'Makes a ride',
      headers: { type: 'object', properties: { 'x-tenant': { type: 'string' } }, required: ['x-tenant'] },
      response: { 201: { type: 'object', description: 'The ride' }, 409: { description: 'Taken', ...own } },
    }
    server.post('/rides', { idempotency: true, schema }, handler)
  })
  const operation = operationOf(app, '/rides')
  expectSound(operation)
  expect(operation).toMatchObject({ description: 'Makes a ride' })
  expect(operation.parameters).toMatchObject([
    { name: 'x-tenant', required: true },
    { name: 'idempotency-key', required: true },
  ])
  expect(Object.keys(operation.responses)).toEqual(['201', '400', '409', '422', '503'])
  expect(operation.responses['409']).toMatchObject({
    description: 'Taken',
    content: { 'application/json': { schema: own } },
  })
})

test('the header has the configured name, and is required as configured', async () => {
  const app = await open(
    (server) => {
      server.post('/optional', { idempotency: { required: false } }, handler)
      server.delete('/required', { idempotency: { required: true } }, handler)
    },
    { header: 'X-Request-Key' },
  )
  expect(keyOf(operationOf(app, '/optional'), 'x-request-key')).toMatchObject([{ required: false }])
  expect(keyOf(operationOf(app, '/required', 'delete'), 'x-request-key')).toMatchObject([{ required: true }])
})

test('the Stripe profile has one 400 for both mistakes, and its own shape', async () => {
  const app = await open((server) => void server.post('/rides', { idempotency: true }, handler), {
    profile: 'stripe',
  })
  const operation = operationOf(app, '/rides')
  expectSound(operation)
  expect(Object.keys(operation.responses)).toEqual(['400', '409', '503', '2XX'])
  expect(operation.responses['400']).toMatchObject({
    description: 'An idempotency key is required; The idempotency key belongs to another request',
    content: { 'application/json': { schema: { properties: { error: { type: 'object' } } } } },
  })
})

describe('the documentation that is added changes no answer', () => {
  const schema = { response: { 200: { type: 'object', properties: { done: { type: 'boolean' } } } } }
  const refuse: RouteShorthandOptions = {
    idempotency: true,
    schema,
    preHandler: async (_, reply) => reply.code(400).send({ reason: 'closed on sundays', since: 1 }),
  }

  test('a missing key is still reported as such, not as a validation error', async () => {
    const app = await open((server) => void server.post('/rides', { idempotency: true, schema }, handler))
    const response = await app.inject({ method: 'POST', url: '/rides' })
    expect([response.statusCode, response.json()]).toMatchObject([400, { code: 'idempotency_key_missing' }])
    expect(response.headers['content-type']).toBe('application/problem+json')
    expect(keyOf(operationOf(app, '/rides'))).toHaveLength(1)
  })

  test('an error of the route itself is sent with all its members', async () => {
    const app = await open((server) => void server.post('/rides', refuse, handler))
    const response = await app.inject({ method: 'POST', url: '/rides', headers: { 'idempotency-key': 'k' } })
    expect(response.json()).toEqual({ reason: 'closed on sundays', since: 1 })
  })
})

describe('a route whose schema comes from another library is left to the transform of that library', () => {
  test.each([
    ['headers', { headers: z.object({ tenant: z.string() }) }],
    ['response', { response: { 200: z.object({ done: z.boolean() }) } }],
    ['body', { body: z.object({ amount: z.number() }) }],
    ['querystring', { querystring: z.object({ page: z.number() }) }],
    ['params', { params: z.object({ id: z.string() }) }],
  ])('in its %s', async (_, schema) => {
    const declared: { schema?: unknown }[] = []
    await open((server) => {
      server.setValidatorCompiler(() => () => true)
      server.setSerializerCompiler(() => JSON.stringify)
      server.addHook('onRoute', (route) => void declared.push(route))
      server.post('/rides', { idempotency: true, schema }, handler)
    })
    expect(declared.map((route) => route.schema)).toEqual([schema])
  })
})
