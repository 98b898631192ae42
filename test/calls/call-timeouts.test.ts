import { randomUUID } from 'node:crypto'
import { type Engine, type Pipeline, respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider
let request: { readonly scope: string; readonly key: string; readonly input: number }
let engines: Engine<Database>[]

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  request = { scope: 's', key: randomUUID(), input: 25 }
  engines = []
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

function engineOf(target: Pipeline<Database, number>): Engine<Database> {
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  engines.push(engine)
  return engine
}

/** A call that ignores its signal, and ends when it is let go. */
function stubborn(end: () => Promise<{ id: string }> = async () => ({ id: 'late' })) {
  const letGo = gate()
  let calls = 0
  const target = pipeline<number>({ name: 'stubborn', version: 1, callTimeoutMs: 50 })
    .foreign('charged', {
      call: async () => {
        calls++
        await letGo.opened
        return end()
      },
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .finish(({ state }) => respond(201, state))
  return { target, letGo: letGo.open, calls: () => calls }
}

interface Key {
  readonly id: string
  readonly attempts: number
  readonly retries: number
  readonly intent: unknown
  readonly last_error: string | null
  readonly lease_until: Date | null
}

async function key(): Promise<Key> {
  const [row] = await database.rows<Key>('SELECT * FROM pawl.idempotency_keys, pg_sleep(0.005)')
  if (row === undefined) throw new Error('no key')
  return row
}

async function givenBack(): Promise<Key> {
  for (;;) {
    const row = await key()
    if (row.lease_until === null) return row
  }
}

test('a call that ignores its signal is left behind at its time-out, and its lease is not given back', async () => {
  const { target, letGo, calls } = stubborn()
  const engine = engineOf(target)
  const outcome = await engine.execute(target, request)
  if (outcome.type !== 'retry_later') throw new Error(`unexpected ${outcome.type}`)
  expect(outcome).toMatchObject({ reason: 'transient_error', error: { code: 'PAWL_CALL_TIMEOUT' } })
  // Nobody gets the key before the lease ends.
  expect(outcome.retryAfterMs).toBeGreaterThanOrEqual(30_000)
  expect(await engine.inspect('s', request.key)).toMatchObject({ lease: { live: true } })
  expect(await engineOf(target).execute(target, request)).toMatchObject({ type: 'in_flight' })
  expect(calls()).toBe(1)
  letGo()
})

test('a late result is saved, the key is given back then, and the next attempt settles without a call', async () => {
  const { target, letGo, calls } = stubborn()
  await engineOf(target).execute(target, request)
  letGo()
  expect(await givenBack()).toMatchObject({
    intent: { kind: 'called', phase: 'charged', result: { id: 'late' } },
  })
  const outcome = await engineOf(target).execute(target, request)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  expect(JSON.parse(outcome.response.body.toString())).toEqual({ chargeId: 'late' })
  expect(calls()).toBe(1)
})

test('a late error is recorded, and the call is made again', async () => {
  let turn = 0
  const { target, letGo, calls } = stubborn(async () => {
    if (turn++ === 0) throw new Error('late failure')
    return { id: 'second' }
  })
  await engineOf(target).execute(target, request)
  letGo()
  expect(await givenBack()).toMatchObject({ intent: null, last_error: 'Error: late failure' })
  expect(await engineOf(target).execute(target, request)).toMatchObject({ type: 'completed' })
  expect(calls()).toBe(2)
})

test('a result that comes while the key is being given back is not lost', async () => {
  const { target, letGo, calls } = stubborn()
  const options = { pool: database.pool(), pipelines: [target], schema: database.schema }
  const engine = createProbedEngine<Database>(options, ({ phase, step, when }) => {
    if (step !== 'give_back_key' || phase !== 'give_back' || when !== 'before') return undefined
    letGo()
    // Long enough for a result to be saved, if it did not wait for its turn.
    return database.rows('SELECT 1').then(() => {})
  })
  engines.push(engine)
  await engine.execute(target, request)
  await givenBack()
  const other = await engineOf(target).execute(target, request)
  if (other.type !== 'completed') throw new Error(`unexpected ${other.type}`)
  expect(JSON.parse(other.response.body.toString())).toEqual({ chargeId: 'late' })
  expect(calls()).toBe(1)
})

test('a time-out and the late result of its call count as one retry; earlier crashes still count as attempts', async () => {
  const { target, letGo } = stubborn()
  for (let death = 1; death <= 3; death++) {
    await dieAt(database, { pipelines: [target] }, 'charged/call#1:before', async (engine) =>
      engine.execute(target, request),
    )
  }
  expect(await key()).toMatchObject({ attempts: 3, retries: 0 })
  await engineOf(target).execute(target, request)
  expect(await key()).toMatchObject({ attempts: 3, retries: 1 })
  letGo()
  expect(await givenBack()).toMatchObject({ attempts: 3, retries: 1 })
})

test('a call that heeds its signal has its key given back as soon as it times out', async () => {
  await provider.willMeet('silent')
  const target = pipeline<number>({ name: 'heeding', version: 1, callTimeoutMs: 100 })
    .foreign('charged', {
      call: ({ input, idempotencyKey, signal }) => provider.charge(input, { idempotencyKey, signal }),
      onError: () => respond(400, { code: 'never asked' }),
    })
    .finish(() => respond(201))
  const engine = engineOf(target)
  expect(await engine.execute(target, request)).toMatchObject({
    type: 'retry_later',
    reason: 'transient_error',
    error: { code: 'PAWL_CALL_TIMEOUT' },
  })
  expect(await key()).toMatchObject({ lease_until: null })
})

test('an at_most_once call that is left behind at its time-out is stuck', async () => {
  const letGo = gate()
  const target = pipeline<number>({ name: 'once', version: 1, callTimeoutMs: 50 })
    .foreign('charged', {
      guarantee: 'at_most_once',
      call: async () => {
        await letGo.opened
        return { id: 'late' }
      },
    })
    .finish(() => respond(201))
  const engine = engineOf(target)
  expect(await engine.execute(target, request)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
  letGo.open()
  await engine.close()
  expect(await engineOf(target).execute(target, request)).toMatchObject({ type: 'stuck' })
})
