import { randomUUID } from 'node:crypto'
import { createOperator, type Engine, type Operator, type Pipeline, respond, subscribe } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const BECAUSE = { actor: 'anna', reason: 'test' }

let database: TestDatabase
let request: { readonly scope: string; readonly key: string; readonly input: number }
let engines: Engine<Database>[]
let operator: Operator

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  request = { scope: 's', key: randomUUID(), input: 25 }
  engines = []
  operator = createOperator({ pool: database.pool(), schema: database.schema })
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

const name = () => ({ scope: 's', key: request.key })

function engineOf(target: Pipeline<Database, number>): Engine<Database> {
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  engines.push(engine)
  return engine
}

/** A call that must not be repeated, ignores its signal, and ends when it is let go. */
function stubborn(end: () => { id: string }) {
  const letGo = gate()
  let calls = 0
  const target = pipeline<number>({ name: 'once', version: 1, callTimeoutMs: 50 })
    .foreign('charged', {
      guarantee: 'at_most_once',
      call: async () => {
        calls++
        await letGo.opened
        return end()
      },
      settle: ({ result }) => ({ chargeId: result.id }),
      reference: ({ id }) => id,
    })
    .finish(({ state }) => respond(201, state))
  return { target, letGo: letGo.open, calls: () => calls }
}

async function stuckThenEnded(end: () => { id: string }) {
  const { target, letGo, calls } = stubborn(end)
  const engine = engineOf(target)
  expect(await engine.execute(target, request)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
  letGo()
  // close() waits for what goes on after executions have answered.
  await engine.close()
  return { target, calls }
}

test('a result that comes once the key is stuck is kept for the person who decides', async () => {
  const { target, calls } = await stuckThenEnded(() => ({ id: 'ch_late' }))
  const report = await operator.show(name())
  expect(report?.key).toMatchObject({
    status: 'stuck',
    stuckReason: 'unknown_outcome',
    call: { phase: 'charged', known: 'returned', result: { id: 'ch_late' }, late: true },
  })
  expect(await operator.unstick(name(), BECAUSE, { type: 'not_executed' })).toMatchObject({
    type: 'refused',
    detail: expect.stringContaining("What the call of phase 'charged' returned is known") as string,
  })
  expect(await operator.unstick(name(), BECAUSE)).toMatchObject({ type: 'done' })
  const outcome = await engineOf(target).execute(target, request)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  expect(JSON.parse(outcome.response.body.toString())).toEqual({ chargeId: 'ch_late' })
  expect(await database.rows('SELECT reference FROM pawl.effects')).toEqual([{ reference: 'ch_late' }])
  expect(calls()).toBe(1)
})

test('an error that comes once the key is stuck is kept as its last error', async () => {
  await stuckThenEnded(() => {
    throw new Error('line was busy after all')
  })
  expect((await operator.show(name()))?.key).toMatchObject({
    status: 'stuck',
    lastError: 'Error: line was busy after all',
    call: { phase: 'charged', known: 'may_have_been_made', result: null, late: false },
  })
})

test('a result that comes while the key is being made stuck is not lost', async () => {
  const { target, letGo } = stubborn(() => ({ id: 'ch_race' }))
  const options = { pool: database.pool(), pipelines: [target], schema: database.schema }
  const engine = createProbedEngine<Database>(options, async ({ step, when }) => {
    if (step !== 'mark_stuck' || when !== 'before') return
    letGo()
    // Longer than it takes to save a result that does not wait for its turn.
    await database.rows('SELECT pg_sleep(0.3)')
  })
  engines.push(engine)
  expect(await engine.execute(target, request)).toMatchObject({ type: 'stuck' })
  await engine.close()
  expect((await operator.show(name()))?.key).toMatchObject({
    status: 'stuck',
    call: { known: 'returned', result: { id: 'ch_race' }, late: true },
  })
})

test('a result that comes after somebody has decided changes nothing, and is reported', async () => {
  const { target, letGo, calls } = stubborn(() => ({ id: 'ch_1' }))
  const engine = engineOf(target)
  await engine.execute(target, request)
  const warnings: string[] = []
  onTestFinished(subscribe('pawl:warning', ({ message }) => void warnings.push(message)))
  // The deadline of the call passes.
  await database.rows('SELECT pg_sleep(0.1)')
  const result = { type: 'executed', result: { id: 'ch_said' } } as const
  expect(await operator.unstick(name(), BECAUSE, result)).toMatchObject({ type: 'done' })
  letGo()
  await engine.close()
  expect(warnings).toEqual([expect.stringContaining("the call of phase 'charged' of key") as string])
  const outcome = await engineOf(target).execute(target, request)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  expect(JSON.parse(outcome.response.body.toString())).toEqual({ chargeId: 'ch_said' })
  expect(calls()).toBe(1)
})
