import { randomUUID } from 'node:crypto'
import { channel } from 'node:diagnostics_channel'
import { request as httpRequest } from 'node:http'
import { type Engine, type EngineOptions, type Outcome, type Pipeline, respond } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider
let engines: Engine<Database>[]

beforeEach(async () => {
  engines = []
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

const anyRequest = () => ({ scope: 's', key: randomUUID(), input: null })

function open(
  ride: Pipeline<Database, null>,
  options: Partial<EngineOptions<Database>> = {},
): Engine<Database> {
  const pool = database.pool()
  const engine = createEngine({ pool, pipelines: [ride], schema: database.schema, ...options })
  engines.push(engine)
  return engine
}

function execute(
  ride: Pipeline<Database, null>,
  options?: Partial<EngineOptions<Database>>,
): Promise<Outcome> {
  return open(ride, options).execute(ride, anyRequest())
}

/** A charge as someone would send it with nothing but node:http. */
function chargeByHttp(method = 'POST'): Promise<void> {
  const body = JSON.stringify({ account: provider.account, amount: 1 })
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${provider.url}/charges?account=${provider.account}`,
      { method },
      (response) => {
        response.resume().on('end', () => resolve())
      },
    )
    request.on('error', reject).end(method === 'GET' ? undefined : body)
  })
}

const ways: [string, () => Promise<unknown>][] = [
  ['fetch', () => provider.charge(1)],
  ['node:http', () => chargeByHttp()],
]

/** Writes a row and then sends, with its transaction open. */
const sendsInPhase = (send: () => Promise<unknown>) =>
  pipeline<null>({ name: 'sends', version: 1 })
    .local('sent', async ({ tx }) => {
      await tx.insertInto('audit').values({ what: 'before' }).execute()
      await send()
    })
    .finish(() => respond(200))

const failed = (code: string, ...texts: string[]) => ({
  type: 'retry_later',
  reason: 'unknown_error',
  error: {
    code,
    message: expect.stringMatching(texts.join('.*')),
  },
})

describe('a state-changing request while a transaction is open fails its phase, and rolls it back', () => {
  test.each(ways)('sent by %s in a local phase', async (_, send) => {
    const outcome = await execute(sendsInPhase(send))
    expect(outcome).toMatchObject(
      failed('PAWL_FOREIGN_IN_TRANSACTION', "Phase 'sent' sent POST ", '/charges'),
    )
    expect(outcome).toMatchObject({ recoveryPoint: 'started' })
    expect(await database.rows('SELECT * FROM audit')).toEqual([])
    expect(await provider.requests()).toHaveLength(1)
  })

  test.each(['PUT', 'PATCH', 'DELETE'])('by %s', async (method) => {
    const outcome = await execute(sendsInPhase(() => chargeByHttp(method)))
    expect(outcome).toMatchObject(failed('PAWL_FOREIGN_IN_TRANSACTION', `Phase 'sent' sent ${method} `))
  })

  test('in settle', async () => {
    const ride = pipeline<null>({ name: 'settles', version: 1 })
      .foreign('charged', {
        call: () => provider.charge(1),
        settle: async ({ tx }) => {
          await tx.insertInto('audit').values({ what: 'before' }).execute()
          await provider.charge(2)
        },
      })
      .finish(() => respond(200))
    expect(await execute(ride)).toMatchObject(
      failed('PAWL_FOREIGN_IN_TRANSACTION', "Phase 'charged' sent POST "),
    )
    expect(await database.rows('SELECT * FROM audit')).toEqual([])
  })

  test('in onError, and in finish', async () => {
    const fails = pipeline<null>({ name: 'fails', version: 1 })
      .foreign('charged', {
        call: () => Promise.reject(Object.assign(new Error('declined'), { status: 402 })),
        onError: async () => {
          await provider.charge(1)
          return respond(402)
        },
      })
      .finish(() => respond(200))
    expect(await execute(fails)).toMatchObject(failed('PAWL_FOREIGN_IN_TRANSACTION', "Phase 'charged' sent"))
    const answers = pipeline<null>({ name: 'answers', version: 1 }).finish(async () => {
      await provider.charge(1)
      return respond(200)
    })
    expect(await execute(answers)).toMatchObject(
      failed('PAWL_FOREIGN_IN_TRANSACTION', "Phase 'finished' sent"),
    )
  })

  test('but another key that makes a call at the same time is not blamed', async () => {
    const calls = pipeline<null>({ name: 'calls', version: 1 })
      .foreign('charged', { call: () => provider.charge(1) })
      .finish(() => respond(200))
    const waits = pipeline<null>({ name: 'waits', version: 1 })
      .local('waited', () => provider.arrived(1))
      .finish(() => respond(200))
    const engine = open(calls, { pipelines: [calls, waits] })
    const outcomes = await Promise.all([
      engine.execute(waits, anyRequest()),
      engine.execute(calls, anyRequest()),
    ])
    expect(outcomes.map(({ type }) => type)).toEqual(['completed', 'completed'])
  })
})

const callsWith = (call: () => Promise<unknown>) =>
  pipeline<null>({ name: 'calls', version: 1 })
    .foreign('charged', { call: () => call().then(() => null) })
    .finish(() => respond(200))

/** All the ways to ask without changing anything. */
const look = () => Promise.all([provider.find('x'), provider.ledger(), chargeByHttp('GET')])

describe('a call', () => {
  test.each(ways)('may send one request by %s', async (_, send) => {
    expect(await execute(callsWith(send))).toMatchObject({ type: 'completed' })
  })

  test.each(ways)(
    'that sends a second request by %s fails, with an error that names both',
    async (_, send) => {
      const outcome = await execute(
        callsWith(async () => {
          await send()
          await send()
        }),
      )
      const expected = failed(
        'PAWL_SECOND_FOREIGN_REQUEST',
        "call of phase 'charged' sent POST",
        'after POST',
      )
      expect(outcome).toMatchObject(expected)
      expect(outcome).toMatchObject({ recoveryPoint: 'started' })
    },
  )

  test('may look things up first, since GETs are free, in a call and in a transaction', async () => {
    const ride = pipeline<null>({ name: 'looks', version: 1 })
      .local('looked', async () => void (await look()))
      .foreign('charged', {
        call: async () => {
          await look()
          return provider.charge(1)
        },
        settle: async () => void (await look()),
      })
      .finish(() => respond(200))
    expect(await execute(ride)).toMatchObject({ type: 'completed' })
  })
})

const throwBug = (): never => {
  throw new Error('a bug')
}

describe('allow', () => {
  test('exempts requests by their method, host and path', async () => {
    const seen: unknown[] = []
    const allow = (request: unknown) => seen.push(request) > 0
    for (const [, send] of ways) {
      expect(await execute(sendsInPhase(send), { strict: { allow } })).toMatchObject({ type: 'completed' })
    }
    expect(seen).toEqual([
      { method: 'POST', host: provider.url, path: '/charges' },
      { method: 'POST', host: new URL(provider.url).hostname, path: `/charges?account=${provider.account}` },
    ])
  })

  test('exempts nothing if it throws, and a warning says so', async () => {
    const warned = new Promise<Error>((resolve) => {
      process.once('warning', resolve)
    })
    const outcome = await execute(
      sendsInPhase(() => provider.charge(1)),
      { strict: { allow: throwBug } },
    )
    expect(outcome).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_FOREIGN_IN_TRANSACTION' } })
    expect((await warned).message).toContain('strict mode: the allow hook threw: Error: a bug')
  })
})

const watched = () =>
  ['http.client.request.start', 'undici:request:create'].map((name) => channel(name).hasSubscribers)

test('strict mode is on by default, and off in production, where it costs no subscription', async () => {
  const ride = sendsInPhase(() => provider.charge(1))
  expect(watched()).toEqual([false, false])
  vi.stubEnv('NODE_ENV', 'production')
  expect(await execute(ride)).toMatchObject({ type: 'completed' })
  expect(watched()).toEqual([false, false])
  vi.stubEnv('NODE_ENV', undefined)
  expect(await execute(ride)).toMatchObject({ error: { code: 'PAWL_FOREIGN_IN_TRANSACTION' } })
  expect(watched()).toEqual([true, true])
})

test('the option takes precedence over NODE_ENV', async () => {
  const ride = sendsInPhase(() => provider.charge(1))
  expect(await execute(ride, { strict: false })).toMatchObject({ type: 'completed' })
  vi.stubEnv('NODE_ENV', 'production')
  expect(await execute(ride, { strict: true })).toMatchObject({
    error: { code: 'PAWL_FOREIGN_IN_TRANSACTION' },
  })
})

test('closing an engine ends its own subscriptions only', async () => {
  const ride = sendsInPhase(() => provider.charge(1))
  const [one, other] = [open(ride), open(ride)]
  await one.close()
  expect(watched()).toEqual([true, true])
  await other.close()
  expect(watched()).toEqual([false, false])
})

test('a request of an engine that runs inside a call of another engine counts for both', async () => {
  const inner = pipeline<null>({ name: 'inner', version: 1 })
    .foreign('charged', { call: ({ idempotencyKey }) => provider.charge(1, { idempotencyKey }) })
    .finish(() => respond(200))
  const innerEngine = open(inner)
  const told: Outcome[] = []
  const outer = pipeline<null>({ name: 'outer', version: 1 })
    .foreign('called', {
      call: async ({ idempotencyKey }) => {
        told.push(await innerEngine.execute(inner, anyRequest()))
        return provider.charge(2, { idempotencyKey })
      },
    })
    .finish(() => respond(200))
  expect(await execute(outer)).toMatchObject(failed('PAWL_SECOND_FOREIGN_REQUEST', "phase 'called'"))
  expect(told).toMatchObject([{ type: 'completed' }])
})
