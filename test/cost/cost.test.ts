import { randomUUID } from 'node:crypto'
import type { Outcome } from '@pawl/core'
import { createProbedEngine, type Position } from '@pawl/core/internal'
import type pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { atMostOnceRideOf, skippedRide } from '../support/guarded-rides.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideOf, createRideTables, type Database, writingRideOf } from '../support/rides.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

/** One message on a pool's client, with its answer: a round trip. */
interface Sent {
  /** The last of its statements, as the probe named it. */
  readonly step: string
  /** Whether it ended a transaction, its own or by a COMMIT. */
  readonly commits: boolean
}

/** Records every message that passes through the pool's clients. */
function record(pool: pg.Pool, positions: readonly Position[]): Sent[] {
  const sent: Sent[] = []
  let seen = 0
  pool.on('connect', (client) => {
    const recorded = client as unknown as {
      query(...sent: unknown[]): unknown
      getTransactionStatus(): string
    }
    const query = recorded.query.bind(client)
    recorded.query = (config, ...more) => {
      const { step } = positions.findLast(({ when }) => when === 'before') ?? { step: '' }
      const together = positions.slice(seen).map((position) => position.step)
      seen = positions.length
      const alone = recorded.getTransactionStatus() === 'I' && !together.includes('begin')
      sent.push({ step, commits: alone || step === 'commit' })
      return query(config, ...more)
    }
  })
  return sent
}

interface Cost {
  readonly outcome: Outcome
  /** The statements of the framework, in their order. */
  readonly statements: readonly string[]
  readonly roundTrips: number
  readonly commits: number
}

/** Executes on an engine that knows how the tables are stored, and counts statements at the probe and messages at the clients. */
async function costOf(trial: RideTrial): Promise<Cost> {
  const pool = database.pool()
  const positions: Position[] = []
  const sent = record(pool, positions)
  const engine = createProbedEngine<Database>(
    trial.options(pool),
    (position) => void positions.push(position),
  )
  await engine.inspect(trial.scope, randomUUID())
  const before = { positions: positions.length, sent: sent.length }
  const outcome = await trial.execute(engine)
  await engine.close()
  sent.splice(0, before.sent)
  const ofRequest = positions.slice(before.positions)
  const steps = ofRequest.filter(({ when }) => when === 'before').map(({ step }) => step)
  const statements = steps.filter((step) => !['query', 'call', 'reconcile'].includes(step))
  const commits = sent.filter((message) => message.commits).length
  return { outcome, statements, roundTrips: sent.length, commits }
}

const RIDE_CREATED = ['begin', 'advance_key', 'commit']
const CHARGE_CREATED = ['begin', 'insert_effect', 'advance_key', 'commit']
/** The same in one leg. */
const CHARGED_AND_FINISHED = ['begin', 'insert_staged_job', 'insert_effect', 'finish_key', 'commit']
const FINISHED = ['begin', 'insert_staged_job', 'finish_key', 'commit']

describe('statements, round trips and commits', () => {
  test('an engine costs one more, once, to learn how the tables are stored', async () => {
    const pool = database.pool({ max: 1 })
    const sent = record(pool, [])
    const engine = createProbedEngine<Database>(new RideTrial(database).options(pool), () => {})
    await engine.inspect('nobody', 'nothing')
    const first = sent.length
    await engine.inspect('nobody', 'nothing')
    expect({ first, second: sent.length - first }).toEqual({ first: 2, second: 1 })
    await engine.close()
  })

  test('a ride with one staged job costs 12 statements of the framework and 4 commits', async () => {
    const { outcome, ...cost } = await costOf(new RideTrial(database))
    expect(outcome.type).toBe('completed')
    expect(cost).toEqual({
      statements: ['insert_key', ...RIDE_CREATED, ...CHARGE_CREATED, ...FINISHED],
      // One for the reservation, two for each phase with a query (one with BEGIN, one with COMMIT), and one for the last.
      roundTrips: 6,
      commits: 4,
    })
    expect(cost.statements).toHaveLength(12)
  })

  test("with commits: 'fewest', a ride costs 5 round trips, and 2 commits that wait for the disk", async () => {
    const options = { defaults: { commits: 'fewest' } } as const
    const { outcome, ...cost } = await costOf(new RideTrial(database, createRideOf, options))
    expect(outcome.type).toBe('completed')
    expect(cost).toEqual({
      statements: ['insert_key', ...RIDE_CREATED, ...CHARGED_AND_FINISHED],
      roundTrips: 5,
      // The reservation is one of them, and does not wait.
      commits: 3,
    })
  })

  test('with rows that are handed to write as well, it costs 3: the reservation, and one for each leg', async () => {
    const options = { defaults: { commits: 'fewest' } } as const
    const { outcome, ...cost } = await costOf(new RideTrial(database, writingRideOf, options))
    expect(outcome.type).toBe('completed')
    expect(cost).toEqual({
      statements: ['insert_key', ...RIDE_CREATED, ...CHARGED_AND_FINISHED],
      roundTrips: 3,
      commits: 3,
    })
  })

  test('without pipelining, each statement is a round trip', async () => {
    const options = { pipelining: false }
    const { outcome, ...cost } = await costOf(new RideTrial(database, createRideOf, options))
    expect(outcome.type).toBe('completed')
    expect(cost).toEqual({
      statements: ['insert_key', ...RIDE_CREATED, ...CHARGE_CREATED, ...FINISHED],
      // They include the user's own two queries, and BEGIN and COMMIT of the reservation.
      roundTrips: 16,
      commits: 4,
    })
  })

  test('a replay costs 2 statements', async () => {
    const trial = new RideTrial(database)
    await costOf(trial)
    const { outcome, ...cost } = await costOf(trial)
    expect(outcome.type).toBe('replayed')
    expect(cost).toEqual({ statements: ['insert_key', 'find_key'], roundTrips: 2, commits: 2 })
  })

  test('where most keys are known, they are looked for first, so that a replay costs 1 statement, and a new request 1 more', async () => {
    const trial = new RideTrial(database)
    const passed: string[] = []
    const engine = createProbedEngine<Database>(trial.options(), ({ phase, step, when }) => {
      if (phase === 'reserve' && when === 'before') passed.push(step)
    })
    const statements = async (request: Promise<Outcome>) => {
      passed.length = 0
      return [(await request).type, ...passed]
    }
    const fresh = (key: string) =>
      engine.execute(trial.pipeline, { scope: trial.scope, key, input: { amount: 300 } })
    expect(await statements(trial.execute(engine))).toEqual(['completed', 'insert_key'])
    for (let replays = 0; replays < 11; replays++)
      expect(await statements(trial.execute(engine))).toEqual(['replayed', 'insert_key', 'find_key'])
    expect(await statements(trial.execute(engine))).toEqual(['replayed', 'find_key'])
    // A new request costs no more than a replay did before, and new ones are soon the rule again.
    expect(await statements(fresh('one'))).toEqual(['completed', 'find_key', 'insert_key'])
    await fresh('two')
    expect(await statements(fresh('three'))).toEqual(['completed', 'insert_key'])
    await engine.close()
  })

  test('a duplicate of a running request costs 2 statements', async () => {
    const trial = new RideTrial(database)
    await trial.dieAt('charge_created/call#1:before')
    const { outcome, ...cost } = await costOf(trial)
    expect(outcome.type).toBe('in_flight')
    expect(cost).toEqual({ statements: ['insert_key', 'find_key'], roundTrips: 2, commits: 2 })
  })

  test.each([
    ['started', 'reserve/insert_key#1:after', [...RIDE_CREATED, ...CHARGE_CREATED, ...FINISHED], 8, 6],
    ['ride_created', 'charge_created/call#1:after', [...CHARGE_CREATED, ...FINISHED], 6, 5],
    ['charge_created', 'charge_created/commit#1:after', FINISHED, 4, 4],
  ])(
    'a resume from %s costs 3 statements to get the key, and those that are left',
    async (_, at, left, roundTrips, commits) => {
      const trial = new RideTrial(database)
      await trial.dieAt(at)
      await database.expireLeases()
      const { outcome, ...cost } = await costOf(trial)
      expect(outcome.type).toBe('completed')
      const statements = ['insert_key', 'find_key', 'take_over_key', ...left]
      expect(cost).toEqual({ statements, roundTrips, commits })
    },
  )

  test('a provider without idempotency keys costs one statement more, which declares the call', async () => {
    const { outcome, ...cost } = await costOf(new RideTrial(database, atMostOnceRideOf))
    expect(outcome.type).toBe('completed')
    expect(cost).toEqual({
      statements: ['insert_key', ...RIDE_CREATED, 'declare_call', ...CHARGE_CREATED, ...FINISHED],
      roundTrips: 7,
      commits: 5,
    })
  })

  test('a skipped phase costs one statement', async () => {
    const { outcome, ...cost } = await costOf(new RideTrial(database, skippedRide))
    expect(outcome.type).toBe('completed')
    expect(cost).toEqual({
      statements: ['insert_key', 'skip_phase', 'begin', 'finish_key', 'commit'],
      // A phase without queries of its own is one round trip.
      roundTrips: 3,
      commits: 3,
    })
  })
})

/** What the server knows about a pool's connections, and about the one for renewals, which has the same name. */
function backendsOf(applicationName: string): Promise<{ state: string; in_transaction: boolean }[]> {
  return database.rows(
    'SELECT state, xact_start IS NOT NULL AS in_transaction FROM pg_stat_activity WHERE application_name = $1',
    [applicationName],
  )
}

describe('connections during a call', () => {
  test('none is checked out, none is in a transaction, and none is opened beside the pool', async () => {
    const application_name = `cost_${randomUUID()}`
    const pool = database.pool({ application_name })
    let seen: unknown
    const trial = new RideTrial(database, (provider) => {
      const charge = provider.charge.bind(provider)
      provider.charge = async (...given) => {
        seen = { checkedOut: pool.totalCount - pool.idleCount, backends: await backendsOf(application_name) }
        return charge(...given)
      }
      return createRideOf(provider)
    })
    const { engine } = engineWithStops(trial.options(pool))
    expect((await trial.execute(engine)).type).toBe('completed')
    expect(seen).toEqual({ checkedOut: 0, backends: [{ state: 'idle', in_transaction: false }] })
    await engine.close()
  })

  test('one is opened for renewals, and closed once nothing is left to renew', async () => {
    const application_name = `cost_${randomUUID()}`
    const pool = database.pool({ application_name, max: 1 })
    const trial = new RideTrial(database)
    const options = trial.options(pool, { defaults: { leaseMs: 300 } })
    const { engine, stops } = engineWithStops(options, 'renewal/renew_leases#2:after')
    const [secondRenewal] = stops
    await trial.provider.willMeet('hold_then_execute')
    const execution = trial.execute(engine)
    await trial.provider.arrived()
    await secondRenewal.reached
    expect(pool.totalCount - pool.idleCount).toBe(0)
    expect(await backendsOf(application_name)).toHaveLength(2)
    secondRenewal.go()
    await trial.provider.letGo()
    expect((await execution).type).toBe('completed')
    // The connections that are left are the pool's own.
    await pool.end()
    await database.backendsGone(application_name)
    await engine.close()
  })
})
