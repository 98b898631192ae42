import { randomUUID } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { FencedOff } from '../../packages/core/src/run/fenced-off.js'
import { LeaseKeeper } from '../../packages/core/src/run/lease-keeper.js'
import { tablesIn } from '../../packages/core/src/storage/tables.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'
import { holdOfNoKey, leasesLeftMs } from './leases.js'
import { Spread } from '../../packages/core/src/driver/spread.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

describe('while a call runs', () => {
  test('one statement renews all leases that are due', async () => {
    const CALLS = 20
    const LEASE_MS = 900
    const trial = new RideTrial(database)
    const options = trial.options(database.pool(), { defaults: { leaseMs: LEASE_MS } })
    const { engine, stops } = engineWithStops(
      options,
      'renewal/renew_leases#1:before',
      'renewal/renew_leases#2:after',
    )
    const [firstRenewal, secondRenewal] = stops
    await trial.provider.willMeet(...Array.from({ length: CALLS }, () => 'hold_then_execute' as const))
    const executions = Array.from({ length: CALLS }, () =>
      engine.execute(trial.pipeline, { scope: trial.scope, key: randomUUID(), input: { amount: 1 } }),
    )
    await trial.provider.arrived(CALLS)
    await firstRenewal.reached
    // All are due by now: the process stood still for more than a third of the lease.
    await database.rows('SELECT pg_sleep($1)', [LEASE_MS / 3 / 1_000])
    await database.expireLeases()
    firstRenewal.go()
    await secondRenewal.reached
    const left = await leasesLeftMs(trial)
    expect(left).toHaveLength(CALLS)
    expect(left[0]).toBeGreaterThan(0)
    secondRenewal.go()
    await trial.provider.letGo()
    expect(new Set((await Promise.all(executions)).map(({ type }) => type))).toEqual(new Set(['completed']))
    await engine.close()
  })

  test('a call that has ended costs no statement, and does not keep others from being renewed', async () => {
    const LEASE_MS = 300
    const steps: string[] = []
    const keeper = new LeaseKeeper(database.pool(), tablesIn(database.schema, 'a test'), {
      statementDeadlineMs: 5_000,
      lockTimeoutMs: 1_000,
      pipelining: true,
      spread: new Spread(),
      preparedStatements: false,
      probe: ({ step, when }) => void (when === 'before' && steps.push(step)),
    })
    const lost = gate()
    const first = keeper.keep(holdOfNoKey(), LEASE_MS, performance.now(), () => {})
    const second = keeper.keep(holdOfNoKey(), LEASE_MS, performance.now() + LEASE_MS / 2, lost.open)
    await first.end()
    await lost.opened
    await expect(second.end()).rejects.toThrow(FencedOff)
    expect(steps).toEqual(['renew_leases'])
  })

  test('a renewal whose connection broke is made on another', async () => {
    const application_name = `renewal_${randomUUID()}`
    const trial = new RideTrial(database)
    const options = trial.options(database.pool({ application_name }), { defaults: { leaseMs: 600 } })
    const { engine, stops } = engineWithStops(
      options,
      'renewal/renew_leases#1:after',
      'renewal/renew_leases#2:after',
    )
    const [firstRenewal, secondRenewal] = stops
    await trial.provider.willMeet('hold_then_execute')
    const execution = trial.execute(engine)
    await trial.provider.arrived()
    await firstRenewal.reached
    const killed = await database.rows(
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE application_name = $1 AND query LIKE '%unnest%'`,
      [application_name],
    )
    expect(killed).toHaveLength(1)
    const warnings = hear('pawl:warning')
    firstRenewal.go()
    await secondRenewal.reached
    expect(warnings).toMatchObject([{ message: 'leases could not be renewed; the renewal is tried again' }])
    expect((await leasesLeftMs(trial))[0]).toBeGreaterThan(0)
    secondRenewal.go()
    await trial.provider.letGo()
    expect((await execution).type).toBe('completed')
    await engine.close()
  })

  test('the first renewal depends on the age of the lease, not on that of the call', async () => {
    const LEASE_MS = 3_000
    const trial = new RideTrial(database)
    const options = trial.options(database.pool(), { defaults: { leaseMs: LEASE_MS } })
    const { engine, stops } = engineWithStops(
      options,
      'ride_created/commit#1:after',
      'renewal/renew_leases#1:before',
    )
    const [beforeCall, firstRenewal] = stops
    await trial.provider.willMeet('hold_then_execute')
    const execution = trial.execute(engine)
    await beforeCall.reached
    // Longer than until a renewal is due, but not so long that the lease would be checked before the call.
    await database.rows('SELECT pg_sleep($1)', [(0.4 * LEASE_MS) / 1_000])
    beforeCall.go()
    await firstRenewal.reached
    // Otherwise a single renewal that fails would lose the lease.
    expect((await leasesLeftMs(trial))[0]).toBeGreaterThan(LEASE_MS / 3)
    firstRenewal.go()
    await trial.provider.arrived()
    await trial.provider.letGo()
    expect((await execution).type).toBe('completed')
    await engine.close()
  })
})

test('settle begins once the renewal under way is done, so that the two do not conflict', async () => {
  const retried = hear('pawl:phase_retried')
  const trial = new RideTrial(database)
  const options = trial.options(database.pool(), {
    defaults: { leaseMs: 900, isolation: 'repeatable read' },
  })
  const { engine, stops, passed } = engineWithStops(
    options,
    'renewal/renew_leases#1:before',
    'charge_created/call#1:after',
  )
  const [renewal, called] = stops
  await trial.provider.willMeet('hold_then_execute')
  const execution = trial.execute(engine)
  await trial.provider.arrived()
  await renewal.reached
  await trial.provider.letGo()
  await called.reached
  called.go()
  // The transaction has its connection, and would have sent its BEGIN long ago.
  while (options.pool.idleCount === options.pool.totalCount) await database.rows('SELECT 1')
  await database.rows('SELECT 1')
  expect(passed).not.toContain('charge_created/begin#1:before')
  renewal.go()
  expect((await execution).type).toBe('completed')
  expect(retried).toEqual([])
  await engine.close()
})

// Shows I1.
test('of two grants of one key in one engine, a renewal ends only the one that was taken over', async () => {
  const trial = new RideTrial(database)
  const { engine, stops } = engineWithStops(
    trial.options(database.pool(), { defaults: { leaseMs: 600 } }),
    'renewal/renew_leases#1:before',
  )
  const [renewal] = stops
  await trial.provider.willMeet('hold_then_execute', 'hold_then_execute')
  const first = trial.execute(engine)
  await trial.provider.arrived(1)
  await database.expireLeases()
  const second = trial.execute(engine)
  await trial.provider.arrived(2)
  await renewal.reached
  renewal.go()
  expect(await first).toMatchObject({ type: 'in_flight', fencedOff: true })
  await trial.provider.letGo()
  expect(await second).toMatchObject({ type: 'completed' })
  expect(await trial.provider.ledger()).toHaveLength(1)
  await engine.close()
})
