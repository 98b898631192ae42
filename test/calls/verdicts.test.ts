import { createBackground, createOperator, type Engine, respond } from '@pawl/core'
import { afterAll, expect, test } from 'vitest'
import { atMostOnceRideOf } from '../support/guarded-rides.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const because = { actor: 'anna@ops-1', reason: 'asked the provider' }
const NOT_EXECUTED = { type: 'not_executed' } as const
const operator = createOperator({ pool: database.pool(), schema: database.schema })

const nameOf = ({ scope, key }: RideTrial) => ({ scope, key })
const notesOf = ({ scope }: RideTrial) =>
  database.rows('SELECT action, detail FROM pawl.interventions WHERE scope = $1 ORDER BY created_at', [scope])

function completerOf(engine: Engine<Database>) {
  const { completer } = createBackground({ engine, reaper: false })
  if (completer === null) throw new Error('no completer')
  return completer
}

test('a verdict whose answer is lost is applied once, even if its call was made since and is in doubt again', async () => {
  const trial = new RideTrial(database, atMostOnceRideOf)
  const engine = createEngine(trial.options())
  await trial.provider.willMeet('never_arrives')
  expect(await trial.execute(engine)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })

  const proxy = await PostgresProxy.start(database.url)
  const pool = database.pool({ connectionString: proxy.url, max: 1 })
  const struck = proxy.armStatement(`'unstick', $8`, 'answer_lost')
  // Before the operator gets a new connection, the completer makes the call and loses its answer.
  const connect = pool.connect.bind(pool) as (...given: unknown[]) => unknown
  let connections = 0
  pool.connect = (async (...given: unknown[]) => {
    if (++connections === 2) {
      await struck
      await trial.provider.willMeet('executes_then_cuts')
      expect(await completerOf(engine).runOnce()).toMatchObject({ found: 1, stuck: 1 })
    }
    connect(...given)
  }) as never
  const done = await createOperator({ pool, schema: database.schema }).unstick(
    nameOf(trial),
    because,
    NOT_EXECUTED,
  )

  expect(done).toMatchObject({ type: 'done', key: { status: 'stuck' } })
  expect(await notesOf(trial)).toHaveLength(1)
  expect(await completerOf(engine).runOnce()).toMatchObject({ found: 0 })
  expect(await trial.provider.ledger()).toHaveLength(1)
  await engine.close()
  await pool.end()
  await proxy.close()
})

test('nobody may say that a call was not executed while it may still be under way', async () => {
  const begun = gate()
  const mayEnd = gate()
  let calls = 0
  const slow = () =>
    pipeline<RideInput>({ name: 'slow-once', version: 1 })
      .foreign('charge_created', {
        guarantee: 'at_most_once',
        call: async () => {
          calls++
          begun.open()
          await mayEnd.opened
          return { id: `ch_${calls}` }
        },
      })
      .finish(() => respond(201))
  const trial = new RideTrial(database, slow)
  const engine = createEngine(trial.options())
  const first = trial.execute(engine)
  await begun.opened
  expect(await operator.revoke(nameOf(trial), because)).toMatchObject({ type: 'done' })
  expect(await completerOf(engine).runOnce()).toMatchObject({ stuck: 1 })

  expect(await operator.unstick(nameOf(trial), because, NOT_EXECUTED)).toMatchObject({
    type: 'refused',
    detail: expect.stringMatching(/'charge_created' may still be under way until \d{4}-/) as string,
  })
  mayEnd.open()
  await first
  expect(calls).toBe(1)
  // Past its deadline, a person may say so.
  await database.rows(
    `UPDATE pawl.idempotency_keys SET intent = json_build_object('kind', 'calling', 'phase', 'charge_created', 'deadlineMs', 1)
      WHERE scope = $1`,
    [trial.scope],
  )
  expect(await operator.unstick(nameOf(trial), because, NOT_EXECUTED)).toMatchObject({ type: 'done' })
  await engine.close()
})

test('a call that has ended in its own process does not have to be waited for', async () => {
  const trial = new RideTrial(database, atMostOnceRideOf)
  const engine = createEngine(trial.options())
  await trial.provider.willMeet('never_arrives')
  expect(await trial.execute(engine)).toMatchObject({ type: 'stuck' })
  expect(await operator.unstick(nameOf(trial), because, NOT_EXECUTED)).toMatchObject({ type: 'done' })
  expect(await completerOf(engine).runOnce()).toMatchObject({ completed: 1 })
  expect(await trial.provider.ledger()).toHaveLength(1)
  await engine.close()
})

test('a result that a person got wrong can be corrected', async () => {
  const trial = new RideTrial(database, (provider) =>
    pipeline<RideInput>({ name: 'picky', version: 1, maxAttempts: 1 })
      .foreign('charge_created', {
        guarantee: 'at_most_once',
        call: ({ input }) => provider.charge(input.amount, {}),
        settle: ({ result }) => {
          if (typeof result.id !== 'string') throw new TypeError('a charge has an id')
          return { chargeId: result.id }
        },
      })
      .finish(({ state }) => respond(201, state)),
  )
  const engine = createEngine(trial.options())
  await trial.provider.willMeet('executes_then_cuts')
  expect(await trial.execute(engine)).toMatchObject({ type: 'stuck' })
  const say = (result: { id?: string; client_secret?: string }) =>
    operator.unstick(nameOf(trial), because, { type: 'executed', result })

  expect(await say({})).toMatchObject({ type: 'done' })
  expect(await trial.execute(engine)).toMatchObject({ type: 'stuck', reason: 'attempts_exhausted' })
  expect(await say({ id: 'ch_1', client_secret: 'hush' })).toMatchObject({ type: 'done' })
  expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
  expect(await trial.provider.requests()).toHaveLength(1)
  // Notes are kept for ever, so they identify the result without containing it.
  const notes = await notesOf(trial)
  expect(notes).toHaveLength(2)
  expect(JSON.stringify(notes)).not.toContain('hush')
  expect(notes[1]).toMatchObject({
    detail: { given: { verdict: { type: 'executed', result: { bytes: 36 } } } },
  })
  await engine.close()
})

test('a lease is revoked once, even if a lost answer makes the operator revoke it twice', async () => {
  const begun = gate()
  const mayEnd = gate()
  const waiting = () =>
    pipeline<RideInput>({ name: 'waiting', version: 1 })
      .foreign('asked', {
        call: async () => {
          begun.open()
          await mayEnd.opened
          return {}
        },
      })
      .finish(() => respond(200))
  const trial = new RideTrial(database, waiting)
  const [first, second] = [createEngine(trial.options()), createEngine(trial.options())]
  const running = trial.execute(first)
  await begun.opened
  const proxy = await PostgresProxy.start(database.url)
  const pool = database.pool({ connectionString: proxy.url, max: 1 })
  const struck = proxy.armStatement(`'revoke', $8`, 'answer_lost')
  const connect = pool.connect.bind(pool) as (...given: unknown[]) => unknown
  let connections = 0
  const next: Promise<unknown>[] = []
  pool.connect = (async (...given: unknown[]) => {
    if (++connections === 2) {
      await struck
      next.push(trial.execute(second))
      while ((await trial.row())?.fence !== '3') continue
    }
    connect(...given)
  }) as never
  const done = await createOperator({ pool, schema: database.schema }).revoke(nameOf(trial), because)
  expect(done).toMatchObject({ type: 'done' })
  expect(await trial.row()).toMatchObject({ fence: '3' })
  mayEnd.open()
  await Promise.all([running, ...next])
  expect(await notesOf(trial)).toHaveLength(1)
  await Promise.all([first.close(), second.close()])
  await pool.end()
  await proxy.close()
})
