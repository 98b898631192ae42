import { randomUUID } from 'node:crypto'
import { type Engine, type Outcome, type Pipeline, respond } from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const MANY = 50

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const oracle = await tracesWithoutCrash(new RideTrial(database), database.pool())

const typesOf = (outcomes: readonly Outcome[]) => new Set(outcomes.map(({ type }) => type))

/** Alternates between the engines, as a load balancer would. */
const spread = (trial: RideTrial, engines: readonly Engine<Database>[]) =>
  Array.from({ length: MANY }, (_, index) =>
    trial.execute(engines[index % engines.length] as Engine<Database>),
  )

describe('many executions of one key at once', () => {
  // Shows I1.
  test('one runs, all others are told so, and every replay has the same bytes', async () => {
    const trial = new RideTrial(database)
    const engines = [createEngine(trial.options()), createEngine(trial.options())]
    await trial.provider.willMeet('hold_then_execute')
    const executions = spread(trial, engines)
    const answered: Outcome[] = []
    // All the others have their answers before the one that waits for the provider gets its own.
    await new Promise<void>((resolve, reject) => {
      for (const execution of executions) {
        execution.then((outcome) => answered.push(outcome) === MANY - 1 && resolve(), reject)
      }
    })
    expect(typesOf(answered)).toEqual(new Set(['in_flight']))
    await trial.provider.arrived()
    await trial.provider.letGo()
    const [completed, ...more] = (await Promise.all(executions)).filter(({ type }) => type !== 'in_flight')
    if (completed?.type !== 'completed') throw completed
    expect(more).toEqual([])
    expect(await trial.traces(completed.response)).toEqual(oracle)

    const replays = await Promise.all(spread(trial, engines))
    for (const replay of replays) expect(replay).toEqual({ ...completed, type: 'replayed' })
    expect(await trial.provider.requests()).toHaveLength(1)
    await Promise.all(engines.map((engine) => engine.close()))
  })

  test('each that arrives while one runs and finishes is told that it is in flight, or replays', async () => {
    const trial = new RideTrial(database)
    const engines = [createEngine(trial.options()), createEngine(trial.options())]
    const outcomes = await Promise.all(spread(trial, engines))
    const [completed, ...more] = outcomes.filter(({ type }) => type === 'completed')
    if (completed?.type !== 'completed') throw completed
    expect(more).toEqual([])
    for (const outcome of outcomes) {
      if (outcome.type === 'replayed') expect(outcome).toEqual({ ...completed, type: 'replayed' })
      else expect(['completed', 'in_flight']).toContain(outcome.type)
    }
    expect(await trial.traces(completed.response)).toEqual(oracle)
    await Promise.all(engines.map((engine) => engine.close()))
  })

  // Shows I1.
  test('of many that find it unattended, exactly one takes it over', async () => {
    const trial = new RideTrial(database)
    expect(await trial.dieAt('charge_created/call#1:after')).toBe('died')
    await database.expireLeases()
    const engines = [createEngine(trial.options()), createEngine(trial.options())]
    const outcomes = await Promise.all(spread(trial, engines))
    const [completed, ...more] = outcomes.filter(({ type }) => type === 'completed')
    if (completed?.type !== 'completed') throw completed
    expect(more).toEqual([])
    expect(await trial.row()).toMatchObject({ fence: '2' })
    expect(await trial.traces(completed.response)).toEqual(oracle)
    await Promise.all(engines.map((engine) => engine.close()))
  })
})

describe('a pool of one connection', () => {
  test('serves many keys whose calls all run at once, because none holds the connection during its call', async () => {
    const trial = new RideTrial(database)
    const pool = database.pool({ max: 1 })
    const engine = createEngine(trial.options(pool))
    await trial.provider.willMeet(...Array.from({ length: MANY }, () => 'hold_then_execute' as const))
    const executions = Array.from({ length: MANY }, () =>
      engine.execute(trial.pipeline, { scope: trial.scope, key: randomUUID(), input: { amount: 700 } }),
    )
    await trial.provider.arrived(MANY)
    expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0])
    await trial.provider.letGo()
    expect(typesOf(await Promise.all(executions))).toEqual(new Set(['completed']))
    expect(await trial.provider.ledger()).toHaveLength(MANY)
    expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0])
    await engine.close()
  })

  test('does not keep leases from being renewed while somebody else has the connection', async () => {
    const trial = new RideTrial(database)
    const pool = database.pool({ max: 1 })
    const options = trial.options(pool, { defaults: { leaseMs: 600 } })
    const { engine, stops } = engineWithStops(
      options,
      'renewal/renew_leases#1:before',
      'renewal/renew_leases#1:after',
    )
    const [beforeRenewal, afterRenewal] = stops
    await trial.provider.willMeet('hold_then_execute')
    const execution = trial.execute(engine)
    await trial.provider.arrived()
    const hog = await pool.connect()
    await beforeRenewal.reached
    await database.expireLeases()
    beforeRenewal.go()
    await afterRenewal.reached
    const [lease] = await database.rows<{ live: boolean }>(
      'SELECT lease_until > clock_timestamp() AS live FROM pawl.idempotency_keys WHERE scope = $1',
      [trial.scope],
    )
    expect(lease).toEqual({ live: true })
    afterRenewal.go()
    hog.release()
    await trial.provider.letGo()
    expect((await execution).type).toBe('completed')
    await engine.close()
  })
})

function nestedRide(db: () => Engine<Database>['db']): Pipeline<Database, null> {
  return pipeline<null>({ name: 'nested', version: 1 })
    .local('asked', async () => {
      await db().insertInto('audit').values({ what: 'nested' }).execute()
    })
    .finish(() => respond(204))
}

async function executeNested(strict: boolean) {
  const pool = database.pool({ max: 1 })
  // We open it beforehand, to measure the wait for a connection in use rather than for a new one.
  await pool.query('SELECT 1')
  const nested: Pipeline<Database, null> = nestedRide(() => engine.db)
  const engine = createEngine({
    pool,
    pipelines: [nested],
    schema: database.schema,
    strict,
    acquireTimeoutMs: 300,
  })
  const outcome = await engine.execute(nested, { scope: 'nested', key: randomUUID(), input: null })
  expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0])
  expect(await engine.db.selectFrom('audit').selectAll().execute()).toEqual([])
  await engine.close()
  return outcome
}

describe('a phase that asks engine.db for a second connection of an exhausted pool', () => {
  test('fails at once in strict mode, with an error that says why', async () => {
    expect(await executeNested(true)).toMatchObject({
      type: 'retry_later',
      reason: 'unknown_error',
      error: { code: 'PAWL_NESTED_CHECKOUT' },
    })
  })

  test('waits for a bounded time without strict mode, and gives the key back', async () => {
    expect(await executeNested(false)).toMatchObject({
      type: 'retry_later',
      reason: 'transient_error',
      error: { code: 'PAWL_NO_CONNECTION' },
    })
  })
})
