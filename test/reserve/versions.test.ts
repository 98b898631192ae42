import { randomUUID } from 'node:crypto'
import { type AnyPipeline, type Engine, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { Provider, ProviderError } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider
let engines: Engine<Database>[]

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  engines = []
  // The provider remembers keys for as long as it lives, so no two tests may use the same ones.
  request = { scope: 's', key: randomUUID(), input: { amount: 11 } }
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

interface Input {
  readonly amount: number
}
let request: { readonly scope: string; readonly key: string; readonly input: Input }

function engineOf(...pipelines: AnyPipeline<Database>[]): Engine<Database> {
  const engine = createEngine({ pool: database.pool(), pipelines, schema: database.schema })
  engines.push(engine)
  return engine
}

const row = async () => (await database.rows('SELECT * FROM pawl.idempotency_keys'))[0]

/** Stops at `charged`, with a call that failed at the provider. */
const versionOne = () =>
  pipeline<Input>({ name: 'order', version: 1 })
    .local('created', () => ({ orderId: 'o1', colour: 'red' }))
    .foreign('charged', {
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      onError: ({ error }) => (error instanceof ProviderError ? retryLater(error) : undefined),
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .finish(({ state }) => respond(201, { by: 1, ...state }))

async function leaveAtCharge(): Promise<void> {
  const order = versionOne()
  await provider.willMeet('refuse_500')
  expect(await engineOf(order).execute(order, request)).toMatchObject({
    type: 'retry_later',
    recoveryPoint: 'created',
  })
}

// Shows I10.
test('a row of a version that is not registered is refused, which is announced, and left as it is', async () => {
  await leaveAtCharge()
  const before = await row()
  const refused = hear('pawl:refused')
  const next = pipeline<Input>({ name: 'order', version: 2 }).finish(() => respond(201))
  const engine = engineOf(next)
  const refusal = { type: 'refused', pipeline: 'order', version: 1 }
  expect(await engine.execute(next, request)).toMatchObject(refusal)
  expect(await engine.resume(String(before?.['id']))).toMatchObject(refusal)
  expect(refused).toMatchObject([{ detail: 'version 1 is not registered here' }, {}])
  expect(await row()).toEqual(before)
  expect(await provider.requests()).toHaveLength(1)
})

// Shows I10.
test('a changed definition under the same version is refused, and the row is left as it is', async () => {
  await leaveAtCharge()
  const before = await row()
  const reordered = pipeline<Input>({ name: 'order', version: 1 })
    .foreign('charged', { call: ({ input }) => provider.charge(input.amount) })
    .local('created', () => undefined)
    .finish(() => respond(201))
  expect(await engineOf(reordered).execute(reordered, request)).toMatchObject({
    type: 'refused',
    detail: expect.stringContaining('another definition') as string,
  })
  expect(await row()).toEqual(before)
  expect(await provider.requests()).toHaveLength(1)
})

test('code and time-outs may change within a version, and a finished row replays under any version', async () => {
  await leaveAtCharge()
  const patched = pipeline<Input>({ name: 'order', version: 1, leaseMs: 5_000 })
    .local('created', () => ({ orderId: 'other', colour: 'blue' }))
    .foreign('charged', {
      callTimeoutMs: 1_000,
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
    })
    .finish(({ state }) => respond(200, { patched: true, ...state }))
  const outcome = await engineOf(patched).execute(patched, request)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  expect(JSON.parse(outcome.response.body.toString())).toEqual({
    patched: true,
    orderId: 'o1',
    colour: 'red',
  })
  const next = pipeline<Input>({ name: 'order', version: 2 }).finish(() => respond(201))
  expect(await engineOf(next).execute(next, request)).toMatchObject({
    type: 'replayed',
    response: { status: 200 },
  })
})

test('an old version registered beside the new one runs its rows under its own definition', async () => {
  await leaveAtCharge()
  const old = versionOne()
  const next = pipeline<Input>({ name: 'order', version: 2 }).finish(() => respond(201, { by: 2 }))
  const engine = engineOf(old, next)
  const outcome = await engine.execute(next, request)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  expect(JSON.parse(outcome.response.body.toString())).toMatchObject({ by: 1, orderId: 'o1' })
  expect(await row()).toMatchObject({ version: 1, definition_hash: old.definitionHash })
  const fresh = await engine.execute(next, { ...request, key: 'fresh' })
  if (fresh.type !== 'completed') throw new Error(`unexpected ${fresh.type}`)
  expect(JSON.parse(fresh.response.body.toString())).toEqual({ by: 2 })
})

/** Renames both phases, keeps the effect's name, adds a phase, and maps the state. */
const versionTwo = (points: Record<string, string>) =>
  pipeline<Input>({
    name: 'order',
    version: 2,
    upgradesFrom: [
      { version: 1, points, state: ({ orderId, colour }) => ({ order: { id: orderId, colour } }) },
    ],
  })
    .local('order_created', () => ({ order: { id: 'fresh', colour: 'none' } }))
    .foreign('order_charged', {
      effectName: 'charged',
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .finish(({ state }) => respond(201, { by: 2, ...state }))

test('upgradesFrom maps recovery point and state in the take-over itself, and an effect that keeps its name keeps its provider key', async () => {
  await leaveAtCharge()
  const order = versionTwo({ created: 'order_created', charged: 'order_charged' })
  await dieAt(database, { pipelines: [order] }, 'reserve/take_over_key#1:after', async (engine) =>
    engine.execute(order, request),
  )
  expect(await row()).toMatchObject({
    version: 2,
    definition_hash: order.definitionHash,
    recovery_point: 'order_created',
    state: { order: { id: 'o1', colour: 'red' } },
    fence: '2',
  })
  const outcome = await engineOf(order).execute(order, request)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  const body = JSON.parse(outcome.response.body.toString()) as Record<string, unknown>
  expect(body).toMatchObject({ by: 2, order: { id: 'o1', colour: 'red' } })
  const sent = await provider.requests()
  expect(sent).toHaveLength(2)
  expect(sent[1]?.key).toBe(sent[0]?.key)
  expect(await database.rows('SELECT phase, effect, version FROM pawl.effects')).toEqual([
    { phase: 'order_charged', effect: 'charged', version: 2 },
  ])
})

test('an upgrade keeps a saved result, which is settled under the new name without another call', async () => {
  const settles = [new Error('settle is broken'), null]
  const broken = pipeline<Input>({ name: 'order', version: 1 })
    .local('created', () => ({ orderId: 'o1', colour: 'red' }))
    .foreign('charged', {
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      settle: () => {
        const error = settles.shift()
        if (error) throw error
      },
    })
    .finish(() => respond(201))
  expect(await engineOf(broken).execute(broken, request)).toMatchObject({ reason: 'unknown_error' })
  const order = versionTwo({ created: 'order_created', charged: 'order_charged' })
  const outcome = await engineOf(order).execute(order, request)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  const [charge] = await provider.ledger()
  expect(JSON.parse(outcome.response.body.toString())).toMatchObject({ chargeId: charge?.id })
  expect(await provider.requests()).toHaveLength(1)
})

test.each([
  { what: 'point', points: { charged: 'order_charged' }, saved: false },
  { what: 'call in progress', points: { created: 'order_created' }, saved: true },
])('an upgrade that does not map the row’s $what is refused, and the row is left as it is', async (how) => {
  await leaveAtCharge()
  if (how.saved) {
    await database.rows(
      `UPDATE pawl.idempotency_keys SET intent = '{"kind":"called","phase":"charged","result":{"id":"ch"}}'`,
    )
  }
  const before = await row()
  const order = versionTwo(how.points)
  expect(await engineOf(order).execute(order, request)).toMatchObject({
    type: 'refused',
    version: 1,
    detail: expect.stringContaining(how.saved ? "'charged'" : "'created'") as string,
  })
  expect(await row()).toEqual(before)
})

test('an upgrade whose state() throws is refused, and the row is left as it is', async () => {
  await leaveAtCharge()
  const before = await row()
  const order = pipeline<Input>({
    name: 'order',
    version: 2,
    upgradesFrom: [
      {
        version: 1,
        points: { created: 'made' },
        state: () => {
          throw new Error('cannot map')
        },
      },
    ],
  })
    .local('made', () => undefined)
    .finish(() => respond(201))
  expect(await engineOf(order).execute(order, request)).toMatchObject({
    type: 'refused',
    detail: expect.stringContaining('cannot map') as string,
  })
  expect(await row()).toEqual(before)
})
