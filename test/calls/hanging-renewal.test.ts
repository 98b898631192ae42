import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { FencedOff } from '../../packages/core/src/run/fenced-off.js'
import { LeaseKeeper } from '../../packages/core/src/run/lease-keeper.js'
import { tablesIn } from '../../packages/core/src/storage/tables.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'
import { hookedPoolConfig } from './hooked-pool-config.js'
import { holdOfNoKey } from './leases.js'
import { Spread } from '../../packages/core/src/driver/spread.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

describe('a renewal that hangs', () => {
  const LEASE_MS = 60_000
  const options = {
    statementDeadlineMs: 120_000,
    lockTimeoutMs: 1_000,
    pipelining: true,
    spread: new Spread(),
    preparedStatements: false,
  }
  const tables = tablesIn(database.schema, 'a test')
  /** Since when a lease is held of which so much has passed that its renewal is due. */
  const dueSince = () => performance.now() - LEASE_MS / 3

  test('does not hold up a call whose lease it does not renew', async () => {
    const [sent, answered] = [gate(), gate()]
    const probe = async ({ when }: { readonly when: string }) => {
      if (when !== 'before') return
      sent.open()
      await answered.opened
    }
    const keeper = new LeaseKeeper(database.pool(), tables, { ...options, probe })
    const renewed = keeper.keep(holdOfNoKey(), LEASE_MS, dueSince(), () => {})
    await sent.opened
    const other = keeper.keep(holdOfNoKey(), LEASE_MS, performance.now(), () => {})
    await other.end()
    answered.open()
    await expect(renewed.end()).rejects.toThrow(FencedOff)
  })

  test('holds up a call whose lease it renews only for a moment, and is then given up', async () => {
    const application_name = `renewal_${randomUUID()}`
    const warnings = hear('pawl:warning')
    const sent = gate()
    const never = new Promise<void>(() => {})
    const probe = ({ when }: { readonly when: string }) => {
      sent.open()
      return when === 'before' ? never : undefined
    }
    const keeper = new LeaseKeeper(database.pool({ application_name }), tables, { ...options, probe })
    const renewed = keeper.keep(holdOfNoKey(), LEASE_MS, dueSince(), () => {})
    await sent.opened
    await renewed.end()
    // Its connection is cut, so that nothing of it lands in the middle of what comes next.
    await database.backendsGone(application_name)
    expect(warnings).toMatchObject([{ message: expect.stringContaining('a renewal of leases hangs') }])
  })

  test('does not hold up a call while it waits for a connection', async () => {
    const opening = gate()
    const stall = (): Promise<void> => {
      opening.open()
      return new Promise(() => {})
    }
    class StalledClient extends pg.Client {
      constructor(config: pg.ClientConfig) {
        super(config)
        Object.assign(this, { connect: stall })
      }
    }
    const pool = database.pool()
    Object.assign(pool, { Client: StalledClient })
    const keeper = new LeaseKeeper(pool, tables, { ...options, probe: null })
    const renewed = keeper.keep(holdOfNoKey(), LEASE_MS, dueSince(), () => {})
    await opening.opened
    await renewed.end()
    keeper.halt()
  })

  test('is not sent if its call has ended by the time there is a connection', async () => {
    const opening = gate()
    const connects = gate()
    const pool = database.pool(
      hookedPoolConfig({}, () => {
        opening.open()
        return connects.opened
      }),
    )
    const steps: string[] = []
    const disconnected = gate()
    pool.on('remove', disconnected.open)
    const probe = ({ step }: { readonly step: string }) => void steps.push(step)
    const keeper = new LeaseKeeper(pool, tables, { ...options, probe })
    const renewed = keeper.keep(holdOfNoKey(), LEASE_MS, dueSince(), () => {})
    await opening.opened
    await renewed.end()
    connects.open()
    await disconnected.opened
    expect(steps).toEqual([])
  })

  test('does not keep a ride from being settled', async () => {
    const trial = new RideTrial(database)
    const { engine, stops } = engineWithStops(
      trial.options(database.pool(), { defaults: { leaseMs: 3_000 } }),
      'renewal/renew_leases#1:before',
    )
    const [renewal] = stops
    await trial.provider.willMeet('hold_then_execute')
    const execution = trial.execute(engine)
    await trial.provider.arrived()
    await renewal.reached
    await trial.provider.letGo()
    expect(await execution).toMatchObject({ type: 'completed' })
    renewal.go()
    await engine.close()
  })
})
