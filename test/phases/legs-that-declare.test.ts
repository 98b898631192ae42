import { respond, subscribe } from '@pawl/core'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { atMostOnceRideOf, queryableRideOf } from '../support/guarded-rides.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'
import { FEWEST } from './leg-trial.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const rideWith = (rideOf: typeof atMostOnceRideOf) => new RideTrial(database, rideOf, { defaults: FEWEST })

const intentOf = async ({ scope, key }: RideTrial): Promise<unknown> => {
  const [row] = await database.rows<{ intent: unknown }>(
    'SELECT intent FROM pawl.idempotency_keys WHERE scope = $1 AND key = $2',
    [scope, key],
  )
  return row?.intent
}

/** A request whose call shows, by its signal, that the engine has stopped waiting for others. */
function bystanding() {
  const calling = gate()
  const aborted = gate()
  const bystander = pipeline<null>({ name: 'bystander', version: 1 })
    .foreign('called', {
      call: ({ signal }) =>
        new Promise<null>((_, reject) => {
          signal.addEventListener('abort', () => {
            aborted.open()
            reject(signal.reason as Error)
          })
          calling.open()
        }),
    })
    .finish(() => respond(200))
  return { bystander, calling: calling.opened, aborted: aborted.opened }
}

// A call that must not be made twice unasked is declared by the commit of the leg before it.
describe.each([
  ['at_most_once', atMostOnceRideOf],
  ['queryable', queryableRideOf],
] as const)('a leg before a call that is %s', (guarantee, rideOf) => {
  test('declares it in its own commit', async () => {
    const ride = rideWith(rideOf)
    const steps: string[] = []
    const outcome = await ride.executeWatched(
      ({ step, when }) => void (when === 'before' && steps.push(step)),
    )
    expect(outcome.type).toBe('completed')
    expect(steps.slice(0, 6)).toEqual(['insert_key', 'begin', 'query', 'advance_key', 'commit', 'call'])
    expect(await ride.provider.requests()).toHaveLength(1)
  })

  test('is known to have declared it after a crash, so that the call is not simply made', async () => {
    const ride = rideWith(rideOf)
    expect(await ride.dieAt('ride_created/commit#1:after')).toBe('died')
    expect(await intentOf(ride)).toMatchObject({ kind: 'calling', phase: 'charge_created' })
    await database.rows(`UPDATE pawl.idempotency_keys SET lease_until = NULL WHERE scope = $1`, [ride.scope])
    const engine = createEngine(ride.options())
    const outcome = await ride.execute(engine)
    expect(outcome).toMatchObject(
      guarantee === 'at_most_once'
        ? { type: 'stuck', reason: 'unknown_outcome' }
        : { type: 'retry_later', reason: 'outcome_pending' },
    )
    expect(await ride.provider.ledger()).toEqual([])
    await engine.close()
  })

  test('takes the declaration back if its engine closes before the call', async () => {
    const ride = rideWith(rideOf)
    const { bystander, calling, aborted } = bystanding()
    const options = { ...ride.options(), pipelines: [ride.pipeline, bystander] }
    const { engine, stops } = engineWithStops(options, 'ride_created/commit#1:after')
    const running = ride.execute(engine)
    const called = engine.execute(bystander, { scope: ride.scope, key: 'bystander', input: null })
    await Promise.all([stops[0].reached, calling])
    expect(await intentOf(ride)).toMatchObject({ kind: 'calling' })
    const closed = engine.close({ timeoutMs: 0 })
    await aborted
    stops[0].go()
    expect(await running).toMatchObject({ type: 'retry_later', reason: 'closing' })
    await called
    await closed
    expect(await intentOf(ride)).toBeNull()
    const next = createEngine(ride.options())
    expect((await ride.execute(next)).type).toBe('completed')
    expect(await ride.provider.requests()).toHaveLength(1)
    await next.close()
  })

  test('whose COMMIT got no answer calls all the same, and once', async () => {
    const proxy = await PostgresProxy.start(database.url)
    const ride = rideWith(rideOf)
    const pool = database.pool({ connectionString: proxy.url, max: 4 })
    const engine = createEngine(ride.options(pool))
    const struck = proxy.armCommit('answer_lost')
    const running = ride.execute(engine)
    await struck
    expect((await running).type).toBe('completed')
    expect(await ride.provider.requests()).toHaveLength(1)
    await engine.close()
    await proxy.close()
  })

  test('whose holder froze until the call should have ended declares it again', async () => {
    // The lease is old enough by then to be renewed first.
    const defaults = { ...FEWEST, callTimeoutMs: 250, leaseMs: 1_000 }
    const ride = new RideTrial(database, rideOf, { defaults })
    const { engine, passed, stops } = engineWithStops(ride.options(), 'ride_created/commit#1:after')
    const running = ride.execute(engine)
    await stops[0].reached
    await database.rows('SELECT pg_sleep(0.65)')
    stops[0].go()
    expect((await running).type).toBe('completed')
    // The first declaration travelled with the leg before it.
    expect(passed).toContain('charge_created/declare_call#1:before')
    expect(await ride.provider.requests()).toHaveLength(1)
    await engine.close()
  })

  test('declares it durably, whatever a trigger has set', async () => {
    const own = await TestDatabase.createNew()
    await createRideTables(own)
    // A trigger of the application does not want to wait for the disk, and one of this test notes who has to.
    await own.rows(`
      CREATE FUNCTION ${own.businessSchema}.hurry() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NEW; END $$;
      CREATE TRIGGER hurry BEFORE INSERT ON ${own.businessSchema}.rides FOR EACH ROW EXECUTE FUNCTION ${own.businessSchema}.hurry();
      CREATE FUNCTION ${own.businessSchema}.note() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO ${own.businessSchema}.audit (what) VALUES (NEW.recovery_point || ' ' || current_setting('synchronous_commit'));
           RETURN NEW; END $$;
      CREATE TRIGGER note AFTER UPDATE ON pawl.idempotency_keys FOR EACH ROW EXECUTE FUNCTION ${own.businessSchema}.note()`)
    const ride = new RideTrial(own, rideOf, { defaults: FEWEST })
    const engine = createEngine(ride.options())
    expect((await ride.execute(engine)).type).toBe('completed')
    const [first] = await own.rows<{ what: string }>('SELECT what FROM audit WHERE what LIKE $1', [
      'ride_created%',
    ])
    expect(first?.what).toBe('ride_created on')
    await engine.close()
    await own.drop()
  })

  test('that takes long to commit leaves the call its time', async () => {
    const own = await TestDatabase.createNew()
    await createRideTables(own)
    await own.rows(`
      CREATE FUNCTION ${own.businessSchema}.dawdle() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON ${own.businessSchema}.rides DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION ${own.businessSchema}.dawdle()`)
    const ride = new RideTrial(own, rideOf, { defaults: { ...FEWEST, callTimeoutMs: 500 } })
    const steps: string[] = []
    const outcome = await ride.executeWatched(
      ({ step, when }) => void (when === 'before' && steps.push(step)),
    )
    expect(outcome.type).toBe('completed')
    expect(steps).toContain('declare_call')
    await own.drop()
  })

  test('whose key could not be given back at first is given back later, without the declaration', async () => {
    const ride = rideWith(rideOf)
    const { bystander, calling, aborted } = bystanding()
    const options = { ...ride.options(), pipelines: [ride.pipeline, bystander] }
    const { engine, stops } = engineWithStops(
      { ...options, defaults: { ...FEWEST, lockTimeoutMs: 50 } },
      'ride_created/commit#1:after',
      'give_back/give_back_key#2:before',
      'give_back/give_back_key#3:before',
    )
    const running = ride.execute(engine)
    const called = engine.execute(bystander, { scope: ride.scope, key: 'bystander', input: null })
    await Promise.all([stops[0].reached, calling])
    const closed = engine.close({ timeoutMs: 0 })
    await aborted
    // The bystander gives its key back first.
    await called
    stops[0].go()
    await stops[1].reached
    // Somebody looks at the row for longer than a statement waits for a lock.
    const reader = await database.pool().connect()
    await reader.query('BEGIN')
    await reader.query(
      `SELECT FROM ${database.schema}.idempotency_keys WHERE scope = $1 AND key = $2 FOR UPDATE`,
      [ride.scope, ride.key],
    )
    stops[1].go()
    await stops[2].reached
    await reader.query('ROLLBACK')
    reader.release()
    stops[2].go()
    expect(await running).toMatchObject({ type: 'retry_later', reason: 'closing' })
    await closed
    expect(await intentOf(ride)).toBeNull()
  })

  /** A request whose COMMIT gets no answer for a whole lease. */
  async function inDoubtFor(leaseMs: number) {
    const proxy = await PostgresProxy.start(database.url)
    const ride = new RideTrial(database, rideOf, { defaults: { ...FEWEST, leaseMs } })
    const engine = createEngine(ride.options(database.pool({ connectionString: proxy.url, max: 4 })))
    const warned = new Promise<void>((resolve) => {
      onTestFinished(
        subscribe('pawl:warning', ({ message }) => {
          if (message.startsWith('the outcome of a COMMIT stays unknown')) resolve()
        }),
      )
    })
    const struck = proxy.armCommit('answer_lost')
    const running = ride.execute(engine)
    await struck
    proxy.endNewConnections()
    await warned
    const close = async () => {
      await engine.close()
      await proxy.close()
    }
    return { proxy, ride, engine, running, close }
  }

  test('whose COMMIT stays in doubt for a whole lease takes the declaration back when the database returns', async () => {
    let request = await inDoubtFor(600)
    // Where a busy machine has used up a tenth of the lease, a leg commits without a declaration.
    for (let leaseMs = 1_200; (await intentOf(request.ride)) === null; leaseMs *= 2) {
      request.proxy.acceptNewConnections()
      await request.running
      await request.close()
      request = await inDoubtFor(leaseMs)
    }
    const { proxy, ride, engine, running, close } = request
    proxy.acceptNewConnections()
    expect((await running).type).toBe('retry_later')
    expect(await intentOf(ride)).toBeNull()
    await database.expireLeases()
    expect((await ride.execute(engine)).type).toBe('completed')
    expect(await ride.provider.requests()).toHaveLength(1)
    await close()
  })
})
