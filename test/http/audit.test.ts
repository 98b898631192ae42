import fastifyPawl, { type FastifyPawlOptions } from '@pawl/fastify'
import Fastify, { type FastifyInstance } from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { idleEngine } from '../support/idle-engine.js'

const handler = async () => 'done'

interface AuditedApp {
  readonly app: FastifyInstance
  readonly options: FastifyPawlOptions
  readonly log: { readonly level: number; readonly msg: string }[]
}

/** A bare app, and the options to register the plugin with. */
function open(options: Partial<FastifyPawlOptions> = {}): AuditedApp {
  const log: AuditedApp['log'] = []
  const stream = { write: (line: string) => void log.push(JSON.parse(line) as (typeof log)[number]) }
  const app = Fastify({ logger: { stream } })
  onTestFinished(() => app.close())
  return { app, options: { engine: idleEngine(), scope: () => 'ann', ...options }, log }
}

/** The audit as sorted lines. */
const audited = (app: FastifyInstance) =>
  app
    .idempotencyAudit()
    .map(({ method, url, key, reason }) => `${method} ${url} ${key}${reason === null ? '' : ` (${reason})`}`)
    .toSorted()

describe('the audit lists', () => {
  test('every route that changes state, and what it does about keys', async () => {
    const { app, options } = open()
    await app.register(fastifyPawl, options)
    app.post('/marked', { idempotency: true }, handler)
    app.patch('/marked', { idempotency: {} }, handler)
    app.put('/marked', { idempotency: true }, handler)
    app.delete('/marked', { idempotency: { required: true } }, handler)
    app.post('/optional', { idempotency: { required: false } }, handler)
    app.post('/atomic', { idempotency: { atomic: true } }, handler)
    app.post('/searches', { idempotency: { exempt: 'only reads' } }, handler)
    app.post('/login', { idempotency: false }, handler)
    app.delete('/open', handler)
    app.get('/read', { idempotency: true }, handler)
    await app.ready()
    expect(audited(app)).toEqual([
      'DELETE /marked required',
      'DELETE /open none',
      'PATCH /marked required',
      'POST /atomic required',
      'POST /login exempt',
      'POST /marked required',
      'POST /optional optional',
      'POST /searches exempt (only reads)',
      'PUT /marked optional',
    ])
  })

  test('each method of a route, and encapsulated routes with their prefix', async () => {
    const { app, options } = open()
    await app.register(fastifyPawl, options)
    app.route({ method: ['GET', 'POST', 'PUT'], url: '/many', idempotency: true, handler })
    app.register(
      async (inner) => {
        inner.post('/', { idempotency: { atomic: true } }, handler)
        inner.register(async (deep) => void deep.post('/rides/:id', { idempotency: true }, handler), {
          prefix: '/deep',
        })
      },
      { prefix: '/v1' },
    )
    await app.ready()
    expect(audited(app)).toEqual([
      'POST /many required',
      'POST /v1 required',
      'POST /v1/deep/rides/:id required',
      'PUT /many optional',
    ])
  })

  test('routes that were declared before the plugin, as unknown', async () => {
    const { app, options } = open()
    app.post('/', handler)
    app.post('/ride', handler)
    app.post('/rides', handler)
    app.post('/rides/:id/stops/:stop', handler)
    app.delete('/rides/:id', handler)
    app.put('/files/*', handler)
    app.post('/at/:hour(^\\d{2}$)h', handler)
    app.post('/versioned', { constraints: { version: '1.0.0' } }, handler)
    app.post('/versioned', { constraints: { version: '2.0.0' } }, handler)
    app.post('*', handler)
    app.get('/read', handler)
    await app.register(async (inner) => void inner.post('/charges', handler), { prefix: '/old/v1' })
    await app.register(fastifyPawl, options)
    app.post('/new', { idempotency: true }, handler)
    await app.ready()
    expect(audited(app)).toEqual([
      'DELETE /rides/:id unknown',
      'POST * unknown',
      'POST / unknown',
      'POST /at/:hour(^\\d{2}$)h unknown',
      'POST /new required',
      'POST /old/v1/charges unknown',
      'POST /ride unknown',
      'POST /rides unknown',
      'POST /rides/:id/stops/:stop unknown',
      'POST /versioned unknown',
      'PUT /files/* unknown',
    ])
  })

  test('the routes of each registration separately', async () => {
    const { app, options } = open({ enforce: 'error' })
    await app.register(fastifyPawl, options)
    app.post('/outer', { idempotency: true }, handler)
    const seen: string[][] = []
    for (const prefix of ['/one', '/two']) {
      app.register(
        async (inner) => {
          await inner.register(fastifyPawl, { ...options, header: 'x-key' })
          inner.post('/charges', { idempotency: true }, handler)
          inner.addHook('onReady', async () => void seen.push(audited(inner)))
        },
        { prefix },
      )
    }
    await app.ready()
    expect(audited(app)).toEqual(['POST /outer required'])
    expect(seen).toEqual([['POST /one/charges required'], ['POST /two/charges required']])
  })
})

/** One route of each kind, three of them without a key. */
async function openWith(enforce: FastifyPawlOptions['enforce']): Promise<AuditedApp> {
  const opened = open(enforce === undefined ? {} : { enforce })
  const { app, options } = opened
  app.post('/early', handler)
  await app.register(fastifyPawl, options)
  app.post('/open', handler)
  app.patch('/open/:id', handler)
  app.put('/put', handler)
  app.delete('/delete', handler)
  app.post('/exempt', { idempotency: { exempt: 'only reads' } }, handler)
  app.post('/no', { idempotency: false }, handler)
  app.post('/marked', { idempotency: true }, handler)
  return opened
}

describe('a POST or PATCH that takes no key', () => {
  const named =
    /a retry repeats what they do: POST \/open, PATCH \/open\/:id\. .* declared before the plugin.*: POST \/early\. Move/

  test("keeps the app from starting with enforce: 'error'", async () => {
    const { app } = await openWith('error')
    await expect(app.ready()).rejects.toMatchObject({
      code: 'PAWL_UNPROTECTED_ROUTE',
      message: expect.stringMatching(named),
    })
  })

  test.each([undefined, 'warn'] as const)(
    'is logged as a warning, in one line, with enforce: %s',
    async (enforce) => {
      const { app, log } = await openWith(enforce)
      await app.ready()
      expect(log).toMatchObject([{ level: 40, msg: expect.stringMatching(named) }])
    },
  )

  test("is not reported with enforce: 'off'", async () => {
    const { app, log } = await openWith('off')
    await app.ready()
    expect(log).toEqual([])
  })
})

test("an app whose routes are all marked or exempt starts with enforce: 'error', and logs nothing", async () => {
  const { app, options, log } = open({ enforce: 'error' })
  await app.register(fastifyPawl, options)
  app.post('/marked', { idempotency: true }, handler)
  app.post('/atomic', { idempotency: { atomic: true } }, handler)
  app.post('/exempt', { idempotency: { exempt: 'only reads' } }, handler)
  app.patch('/no', { idempotency: false }, handler)
  app.put('/put', handler)
  await app.ready()
  expect(log).toEqual([])
})
