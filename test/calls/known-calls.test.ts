import { randomUUID } from 'node:crypto'
import { type Pipeline, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let calls: number
beforeEach(async () => {
  database = await TestDatabase.create()
  calls = 0
})
afterEach(() => database.drop())

const request = { scope: 's', key: randomUUID(), input: null }

async function run(target: Pipeline<Database, null>) {
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  const outcome = await engine.execute(target, { ...request })
  await engine.close()
  return outcome
}

/** A call whose result is known, and could not be settled. */
const charge = (settled: boolean) => ({
  guarantee: 'at_most_once' as const,
  call: () => {
    calls++
    return { id: 'ch_1' }
  },
  settle: () => (settled ? { charged: true } : retryLater(new Error('not now'))),
})

const order = (settled: boolean, wanted: boolean) =>
  pipeline<null>({ name: 'order', version: 1 })
    .foreign('charged', { ...charge(settled), when: () => wanted })
    .finish(() => respond(204))

const reject = () => Promise.reject(new Error('unheard')) as never

test('an upgrade that puts a phase before a call that was made is refused, since the call would be forgotten', async () => {
  const v1 = pipeline<null>({ name: 'order', version: 1 })
    .foreign('charged', charge(false))
    .finish(() => respond(204))
  const v2 = pipeline<null>({ name: 'order', version: 2, upgradesFrom: [{ version: 1 }] })
    .local('checked', () => ({}))
    .foreign('charged', charge(true))
    .finish(() => respond(204))
  expect(await run(v1)).toMatchObject({ type: 'retry_later' })
  expect(await run(v2)).toMatchObject({
    type: 'refused',
    detail: 'version 2 has a phase before a call that was under way',
  })
  const v3 = pipeline<null>({ name: 'order', version: 3, upgradesFrom: [{ version: 1 }] })
    .foreign('charged', charge(true))
    .local('checked', () => ({}))
    .finish(() => respond(204))
  expect(await run(v3)).toMatchObject({ type: 'completed' })
  expect(calls).toBe(1)
})

test('a call that was made is settled, whatever `when` says by then', async () => {
  expect(await run(order(false, true))).toMatchObject({ type: 'retry_later' })
  expect(await run(order(true, false))).toMatchObject({ type: 'completed' })
  expect(await database.rows('SELECT phase FROM pawl.effects')).toEqual([{ phase: 'charged' }])
  expect(calls).toBe(1)
})

test('functions that have to return at once are refused if they return a promise, whose rejection harms nobody', async () => {
  const v1 = pipeline<null>({ name: 'order', version: 1 })
    .foreign('charged', { call: () => ({ id: 'ch_1' }), reference: reject })
    .local('asked', () => ({}), { when: reject })
    .finish(() => respond(204))
  expect(await run(v1)).toMatchObject({
    type: 'retry_later',
    recoveryPoint: 'charged',
    error: { code: 'PAWL_INVALID_RESULT' },
  })
  const v2 = pipeline<null>({ name: 'order', version: 2, upgradesFrom: [{ version: 1, state: reject }] })
    .local('charged', () => ({}))
    .finish(() => respond(204))
  expect(await run(v2)).toMatchObject({
    type: 'refused',
    detail: expect.stringContaining('synchronously') as string,
  })
})

test('an input that JSON would not preserve is refused, and not taken for another one', async () => {
  const amount = z.object({ amount: z.number() })
  const form = z.instanceof(URLSearchParams).transform((sent) => ({ amount: Number(sent.get('amount')) }))
  const pay = pipeline({ name: 'pay', version: 1, input: z.union([amount, form]) }).finish(() => respond(204))
  const engine = createEngine({ pool: database.pool(), pipelines: [pay], schema: database.schema })
  await expect(
    engine.execute(pay, { ...request, input: new URLSearchParams({ amount: '5' }) }),
  ).rejects.toMatchObject({
    code: 'PAWL_NOT_JSON',
  })
  expect(await database.rows('SELECT 1 FROM pawl.idempotency_keys')).toEqual([])
  await engine.close()
})
