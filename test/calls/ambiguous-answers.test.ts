import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import http2, { constants } from 'node:http2'
import https from 'node:https'
import type { AddressInfo, Server as NetServer } from 'node:net'
import { json, text } from 'node:stream/consumers'
import { type Engine, respond, retryLater } from '@pawl/core'
import { Stripe } from 'stripe'
import { request as undiciRequest } from 'undici'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let engines: Engine<Database>[]
let servers: NetServer[]

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  engines = []
  servers = []
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  for (const server of servers) {
    ;(server as Partial<Server>).closeAllConnections?.()
    server.close()
  }
  await database.drop()
})

async function listen(server: NetServer): Promise<number> {
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Executes a request whose only call is this one, and whose `onError` returns a final response to any error. */
async function executeOnce(call: () => Promise<{ id: string }>) {
  const errors: unknown[] = []
  const target = pipeline<number>({ name: 'hasty', version: 1 })
    .foreign('charged', {
      call,
      onError: ({ error }) => {
        errors.push(error)
        return respond(400, { code: 'failed' })
      },
    })
    .finish(() => respond(201))
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  engines.push(engine)
  const outcome = await engine.execute(target, { scope: 's', key: randomUUID(), input: 1 })
  const [row] = await database.rows('SELECT status, attempts FROM pawl.idempotency_keys')
  return { outcome, row, error: errors[0] }
}

const stripeAt = (port: number) =>
  new Stripe('sk_test_x', {
    host: '127.0.0.1',
    port,
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false,
  })
const chargeAtStripe = async (listener: RequestListener) => {
  const stripe = stripeAt(await listen(createServer(listener)))
  return executeOnce(async () => {
    const { id } = await stripe.paymentIntents.create({ amount: 1, currency: 'usd' }, { idempotencyKey: 'k' })
    return { id }
  })
}
const answers =
  (status: number, error: object): RequestListener =>
  (request, response) => {
    request.resume().on('end', () => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }))
    })
  }
/** Executes the request, begins to answer, and goes away. */
const cutsOff: RequestListener = (request, response) => {
  request.resume().on('end', () => {
    response.writeHead(200, { 'content-length': '100' })
    response.write('{"id":', () => response.destroy())
  })
}

// Shows I7.
describe('a final response is refused where the error of a real client leaves open what happened:', () => {
  const refused = {
    type: 'retry_later',
    error: { code: 'PAWL_AMBIGUOUS_RESPONSE', message: expect.stringContaining('isAnswer') as string },
  }

  test("Stripe's SDK, whose connection broke after the request was received", async () => {
    const { outcome, row, error } = await chargeAtStripe((request) =>
      request.resume().on('end', () => request.socket.destroy()),
    )
    expect(error).toBeInstanceOf(Stripe.errors.StripeConnectionError)
    expect(outcome).toMatchObject({ ...refused, reason: 'transient_error' })
    expect(row).toEqual({ status: 'running', attempts: 0 })
  })

  test("Stripe's SDK, whose key is in use by the first request", async () => {
    const inUse = { type: 'idempotency_error', code: 'idempotency_key_in_use', message: 'in use' }
    const { outcome, row, error } = await chargeAtStripe(answers(409, inUse))
    expect(error).toMatchObject({ statusCode: 409 })
    expect(outcome).toMatchObject({ ...refused, reason: 'transient_error' })
    expect(row).toEqual({ status: 'running', attempts: 0 })
  })

  test("Stripe's SDK, whose key was used with another body, which was charged", async () => {
    const { outcome, row, error } = await chargeAtStripe(
      answers(400, { type: 'idempotency_error', message: 'other parameters' }),
    )
    expect(error).toBeInstanceOf(Stripe.errors.StripeIdempotencyError)
    expect(outcome).toMatchObject({ ...refused, reason: 'unknown_error' })
    expect(row).toEqual({ status: 'running', attempts: 1 })
  })

  test.each([
    ['undici', async (url: string) => (await undiciRequest(url, { method: 'POST' })).body.json()],
    ['fetch', async (url: string) => (await fetch(url, { method: 'POST' })).json()],
  ])('%s, whose answer was cut off', async (_, post) => {
    const port = await listen(createServer(cutsOff))
    const { outcome, row } = await executeOnce(
      async () => (await post(`http://127.0.0.1:${port}`)) as { id: string },
    )
    expect(outcome).toMatchObject({ ...refused, reason: 'transient_error' })
    expect(row).toEqual({ status: 'running', attempts: 0 })
  })

  test('node:http2, whose stream was reset', async () => {
    const server = http2.createServer()
    server.on('stream', (stream) => {
      stream.on('error', () => {})
      stream.resume().on('end', () => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
    })
    const port = await listen(server)
    const client = http2.connect(`http://127.0.0.1:${port}`)
    const { outcome, row, error } = await executeOnce(async () => {
      const stream = client.request({ ':method': 'POST', ':path': '/' })
      stream.end('{}')
      return (await json(stream)) as { id: string }
    })
    client.destroy()
    expect(error).toMatchObject({ code: 'ERR_HTTP2_STREAM_ERROR' })
    expect(outcome).toMatchObject({ ...refused, reason: 'transient_error' })
    expect(row).toEqual({ status: 'running', attempts: 0 })
  })

  test('node:https, whose peer does not speak TLS', async () => {
    const port = await listen(createServer((_, response) => response.end()))
    const { outcome, row, error } = await executeOnce(async () => {
      const request = https.request({ host: '127.0.0.1', port, method: 'POST' })
      request.end('{}')
      const [response] = (await once(request, 'response')) as [NodeJS.ReadableStream]
      return { id: await text(response) }
    })
    expect(error).toMatchObject({ code: 'EPROTO' })
    expect(outcome).toMatchObject({ ...refused, reason: 'transient_error' })
    expect(row).toEqual({ status: 'running', attempts: 0 })
  })
})

describe('an answer of the provider becomes final:', () => {
  test("the 402 of Stripe's SDK", async () => {
    const { outcome, error } = await chargeAtStripe(
      answers(402, { type: 'card_error', code: 'card_declined', message: 'declined' }),
    )
    expect(error).toBeInstanceOf(Stripe.errors.StripeCardError)
    expect(outcome).toMatchObject({ type: 'completed', response: { status: 400 } })
  })

  class CardDeclined extends Error {}

  function declining(isAnswer: ((error: unknown) => boolean) | null, thrown: unknown) {
    const target = pipeline<number>({ name: 'declining', version: 1 })
      .foreign('charged', {
        call: (): { id: string } => {
          throw thrown
        },
        onError: ({ error }) => (error instanceof CardDeclined ? respond(402) : retryLater(error)),
        ...(isAnswer === null ? {} : { isAnswer }),
      })
      .finish(() => respond(201))
    const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
    engines.push(engine)
    return engine.execute(target, { scope: 's', key: randomUUID(), input: 1 })
  }

  test('an error without a status, if the phase declares it an answer', async () => {
    const declared = (error: unknown) => error instanceof CardDeclined
    expect(await declining(declared, new CardDeclined())).toMatchObject({ response: { status: 402 } })
    expect(await declining(null, new CardDeclined())).toMatchObject({
      type: 'retry_later',
      reason: 'unknown_error',
      error: { code: 'PAWL_AMBIGUOUS_RESPONSE' },
    })
  })

  test('but not an error that a broken connection caused, whatever the phase declares', async () => {
    const cause = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    const outcome = await declining(() => true, new CardDeclined('failed', { cause }))
    expect(outcome).toMatchObject({
      reason: 'transient_error',
      error: { code: 'PAWL_AMBIGUOUS_RESPONSE' },
    })
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error('bug')
      },
    ],
    ['returns a promise', (() => Promise.resolve(true)) as unknown as () => boolean],
  ])('nor an error where isAnswer %s', async (_, isAnswer) => {
    expect(await declining(isAnswer, new CardDeclined())).toMatchObject({
      error: { code: 'PAWL_AMBIGUOUS_RESPONSE' },
    })
  })
})

const refusedBy = (status: number) => Object.assign(new Error('refused'), { status })

async function keepsTrying(error: unknown, onError: Parameters<typeof retryLater>[1] | 'answers 503') {
  const target = pipeline<number>({ name: 'stubborn', version: 1, maxAttempts: 3 })
    .foreign('charged', {
      call: (): { id: string } => {
        throw error
      },
      onError: () => (onError === 'answers 503' ? respond(503) : retryLater(error, onError)),
    })
    .finish(() => respond(201))
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  engines.push(engine)
  const request = { scope: 's', key: randomUUID(), input: 1 }
  const types: string[] = []
  for (let attempt = 1; attempt <= 4; attempt++) types.push((await engine.execute(target, request)).type)
  return types
}

describe('an error that carries a final 4xx of the provider, but is retried all the same,', () => {
  test.each([{}, { notExecuted: true }, 'answers 503' as const])(
    'counts as an attempt, so that the cap brings it to a person (%o)',
    async (onError) => {
      expect(await keepsTrying(refusedBy(400), onError)).toEqual([
        'retry_later',
        'retry_later',
        'stuck',
        'stuck',
      ])
      expect(await database.rows('SELECT stuck_reason FROM pawl.idempotency_keys')).toEqual([
        { stuck_reason: 'attempts_exhausted' },
      ])
    },
  )

  test.each([503, 429, 409])('but a %d is retried until the key is too old', async (status) => {
    const all = Array.from({ length: 4 }, () => 'retry_later')
    expect(await keepsTrying(refusedBy(status), {})).toEqual(all)
  })

  test('and so is a broken connection', async () => {
    const all = Array.from({ length: 4 }, () => 'retry_later')
    const broken = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    expect(await keepsTrying(broken, {})).toEqual(all)
  })
})
