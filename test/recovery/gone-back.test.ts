import { randomUUID } from 'node:crypto'
import { type Engine, type Pipeline, respond } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

// What a holder may write to a key that a lossy failover has taken back behind it, under the same fence and holder.

let database: TestDatabase
let request: { readonly scope: string; readonly key: string; readonly input: null }
let engines: Engine<Database>[]
let lost: boolean

beforeEach(async () => {
  database = await TestDatabase.create()
  request = { scope: 's', key: randomUUID(), input: null }
  engines = []
  lost = false
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

function engineOf(target: Pipeline<Database, null>): Engine<Database> {
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  engines.push(engine)
  return engine
}

const STARTED = `recovery_point = 'started', state = '{}', trail = '[]', intent = NULL`

/** Lets the database lose commits, once. */
async function loseCommits(to = STARTED): Promise<void> {
  if (lost) return
  lost = true
  await database.rows(`UPDATE pawl.idempotency_keys SET ${to}`)
}

const row = async () => (await database.rows('SELECT * FROM pawl.idempotency_keys'))[0]

test('a key that has gone back is not given back at the point it was at: nothing is written, and it goes on once its lease is over', async () => {
  const sent: string[] = []
  const target = pipeline<null>({ name: 'settles', version: 1 })
    .local('noted', () => ({}))
    .foreign('charged', {
      call: ({ idempotencyKey }) => {
        sent.push(idempotencyKey)
        return { id: 'ch_1' }
      },
      settle: async ({ result }) => {
        const isFirst = !lost
        await loseCommits()
        if (isFirst) throw new Error('not today')
        return { chargeId: result.id }
      },
    })
    .finish(({ state }) => respond(201, state))
  const engine = engineOf(target)
  const fencedOff = hear('pawl:fenced_off')
  expect(await engine.execute(target, request)).toMatchObject({ type: 'in_flight', fencedOff: false })
  // Nobody has taken it over, so nobody was fenced off.
  expect(fencedOff).toEqual([])
  expect(await row()).toMatchObject({ recovery_point: 'started', intent: null, last_error: null })
  await database.expireLeases()
  expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
  expect(sent).toEqual([sent[0], sent[0]])
})

test('a call that failed on a key that has gone back is left to a person, who is told so', async () => {
  const target = pipeline<null>({ name: 'throws', version: 1 })
    .local('noted', () => ({}))
    .foreign('charged', {
      guarantee: 'at_most_once',
      call: async () => {
        await loseCommits()
        throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
      },
    })
    .finish(() => respond(201))
  expect(await engineOf(target).execute(target, request)).toMatchObject({
    type: 'stuck',
    reason: 'unknown_outcome',
    lastError: expect.stringMatching(/PAWL_KEY_WENT_BACK.*'started'.*'charged'/s) as string,
  })
})

test('the lease of a key that has gone back is not renewed, and its call is aborted as if another had taken it over', async () => {
  let reason: unknown
  const target = pipeline<null>({ name: 'waits', version: 1, leaseMs: 600 })
    .local('noted', () => ({}))
    .foreign('charged', {
      call: async ({ signal }) => {
        await loseCommits()
        await new Promise((resolve) => {
          signal.addEventListener('abort', resolve)
        })
        reason = signal.reason
        throw reason
      },
    })
    .finish(() => respond(201))
  expect(await engineOf(target).execute(target, request)).toMatchObject({ type: 'in_flight' })
  expect(reason).toMatchObject({ code: 'PAWL_LEASE_LOST' })
})

test('a call that was skipped is not taken for one that was made', async () => {
  const target = pipeline<null>({ name: 'skips', version: 1 })
    .foreign('charged', { guarantee: 'at_most_once', when: () => false, call: () => ({ id: 'ch_1' }) })
    .local('after', () => loseCommits())
    .finish(() => respond(201))
  const engine = engineOf(target)
  expect(await engine.execute(target, request)).toMatchObject({ type: 'in_flight' })
  await database.expireLeases()
  expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
})

test('a declaration that survived keeps its own deadline, which a person has to wait for', async () => {
  const intent = { kind: 'calling', phase: 'charged', deadlineMs: 4_102_444_800_000, timeoutMs: 30_000 }
  const target = pipeline<null>({ name: 'survives', version: 1 })
    .local('noted', () => ({}))
    .foreign('charged', { guarantee: 'at_most_once', call: () => ({ id: 'ch_1' }) })
    .local('after', () => loseCommits(`recovery_point = 'noted', intent = '${JSON.stringify(intent)}'`))
    .finish(() => respond(201))
  expect(await engineOf(target).execute(target, request)).toMatchObject({
    type: 'stuck',
    reason: 'unknown_outcome',
  })
  expect(await row()).toMatchObject({ status: 'stuck', recovery_point: 'noted', intent })
})

test.each([
  ['an advance', 'one/commit#1:before'],
  ['a skipped phase', 'two/skip_phase#1:before'],
  ['the finish', 'finished/commit#1:before'],
])('what is known of a call of another phase is not cleared by %s', async (_, position) => {
  const target = pipeline<null>({ name: 'clears', version: 1 })
    .local('one', () => ({}))
    .foreign('two', { when: () => false, call: () => ({}) })
    .foreign('called', { when: () => false, call: () => ({}) })
    .finish(() => respond(201))
  const options = { pool: database.pool(), pipelines: [target], schema: database.schema }
  const { engine, stops } = engineWithStops(options, position)
  engines.push(engine)
  const running = engine.execute(target, request)
  await stops[0].reached
  const intent = { kind: 'calling', phase: 'called', deadlineMs: 1 }
  await database.rows('UPDATE pawl.idempotency_keys SET intent = $1', [JSON.stringify(intent)])
  const before = await row()
  stops[0].go()
  expect(await running).toMatchObject({ type: 'in_flight', fencedOff: true })
  expect(await row()).toMatchObject({ recovery_point: before?.['recovery_point'], intent })
})
