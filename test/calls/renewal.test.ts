import { randomUUID } from 'node:crypto'
import { createProbedEngine } from '@pawl/core/internal'
import pg from 'pg'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { openSession } from '../../packages/core/src/driver/open-session.js'
import { FencedOff } from '../../packages/core/src/run/fenced-off.js'
import { LeaseKeeper } from '../../packages/core/src/run/lease-keeper.js'
import { tablesIn } from '../../packages/core/src/storage/tables.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables, type Database } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

/** How long the leases of a trial still run, on the database's clock, shortest first. */
async function leasesLeftMs(trial: RideTrial): Promise<number[]> {
  const rows = await database.rows<{ left_ms: number }>(
    `SELECT extract(epoch FROM lease_until - clock_timestamp())::float * 1000 AS left_ms FROM pawl.idempotency_keys
      WHERE scope = $1 ORDER BY 1`,
    [trial.scope],
  )
  return rows.map((row) => row.left_ms)
}

describe('while a call runs', () => {
  test('one statement renews the leases of all that are due', async () => {
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

  test('a call that has ended leaves the others their turn, and costs no statement', async () => {
    const LEASE_MS = 300
    const steps: string[] = []
    const keeper = new LeaseKeeper(database.pool(), tablesIn(database.schema, 'a test'), {
      statementDeadlineMs: 5_000,
      lockTimeoutMs: 1_000,
      pipelining: true,
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
    expect(warnings).toMatchObject([{ message: 'leases could not be renewed; it is tried again' }])
    expect((await leasesLeftMs(trial))[0]).toBeGreaterThan(0)
    secondRenewal.go()
    await trial.provider.letGo()
    expect((await execution).type).toBe('completed')
    await engine.close()
  })

  test('the first renewal is due by the age of the lease, not of the call', async () => {
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
    // Not so long that the lease would be asked for before the call, but longer than until a renewal is due.
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

test('settle begins once the renewal under way is done, and so does not conflict with it', async () => {
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
  // The transaction has its connection, and would have sent its BEGIN long since.
  while (options.pool.idleCount === options.pool.totalCount) await database.rows('SELECT 1')
  await database.rows('SELECT 1')
  expect(passed).not.toContain('charge_created/begin#1:before')
  renewal.go()
  expect((await execution).type).toBe('completed')
  expect(retried).toEqual([])
  await engine.close()
})

describe('a renewal that hangs', () => {
  const LEASE_MS = 60_000
  const options = {
    statementDeadlineMs: 120_000,
    lockTimeoutMs: 1_000,
    pipelining: true,
    preparedStatements: false,
  }
  const tables = tablesIn(database.schema, 'a test')
  /** So much of its lease has passed that it is due. */
  const dueSince = () => performance.now() - LEASE_MS / 3

  test('does not hold up a call whose lease is not in it', async () => {
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

  test('holds up one whose lease is in it for a moment only, and is given up then', async () => {
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

  test('because no connection can be had holds up nobody', async () => {
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

  test('for want of a connection is not made of a call that has ended meanwhile', async () => {
    const opening = gate()
    const connects = gate()
    const pool = database.pool(
      hooked({}, () => {
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

  test('lets a ride be settled all the same', async () => {
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

test('an engine that is stopped while it opens a connection for renewals does not leave it open', async () => {
  const application_name = `renewal_${randomUUID()}`
  const opening = gate()
  const answer = gate()
  const connected = gate()
  class SlowClient extends pg.Client {
    constructor(config: pg.ClientConfig) {
      super(config)
      const connect = this.connect.bind(this)
      const connectSlowly = async () => {
        opening.open()
        await answer.opened
        await connect()
        connected.open()
      }
      Object.assign(this, { connect: connectSlowly })
    }
  }
  const pool = database.pool({ application_name })
  const trial = new RideTrial(database)
  const engine = createProbedEngine<Database>(trial.options(pool, { defaults: { leaseMs: 300 } }), () => {})
  await trial.provider.willMeet('hold_then_execute')
  const execution = trial.execute(engine)
  await trial.provider.arrived()
  // The pool has the connection it needs by now: the next one is the renewal's.
  Object.assign(pool, { Client: SlowClient })
  await opening.opened
  engine.halt()
  answer.open()
  await connected.opened
  await trial.provider.letGo()
  expect((await execution).type).toBe('completed')
  await pool.end()
  await database.backendsGone(application_name)
})

// Shows I1.
test('of two grants of one key in one engine, only the one that is over is lost', async () => {
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

describe("the connection for renewals is made as the pool's own are", () => {
  const HOOKS = [
    {
      hook: 'the connect event',
      poolWith: (config: pg.PoolConfig, sql: string): pg.Pool =>
        database.pool(config).on('connect', (client) => void client.query(sql).catch(() => {})),
    },
    {
      hook: 'onConnect',
      poolWith: (config: pg.PoolConfig, sql: string): pg.Pool =>
        database.pool(
          hooked(config, async (client) => {
            await database.rows('SELECT 1')
            await client.query(sql)
          }),
        ),
    },
  ]

  test.each(HOOKS)('with $hook, such as one that sets the role', async ({ poolWith }) => {
    const { powerless, able } = await roles()
    const warnings = hear('pawl:warning')
    const options = `-c search_path=${database.businessSchema} -c role=${powerless}`
    const pool = poolWith({ options }, `SET ROLE ${able}`)
    const trial = new RideTrial(database)
    const { engine, stops } = engineWithStops(
      trial.options(pool, { defaults: { leaseMs: 900 } }),
      'renewal/renew_leases#1:before',
      'renewal/renew_leases#1:after',
    )
    const [before, after] = stops
    await trial.provider.willMeet('hold_then_execute')
    const execution = trial.execute(engine)
    await trial.provider.arrived()
    await before.reached
    await database.expireLeases()
    before.go()
    await after.reached
    expect((await leasesLeftMs(trial))[0]).toBeGreaterThan(0)
    after.go()
    await trial.provider.letGo()
    expect((await execution).type).toBe('completed')
    expect(warnings).toEqual([])
    await engine.close()
  })

  const session = {
    statementDeadlineMs: 300,
    lockTimeoutMs: 1_000,
    pipelining: true,
    preparedStatements: false,
    probe: null,
  }

  test.each([
    ['rejects', () => Promise.reject(new Error('no such role'))],
    ['throws', () => raise(new Error('no such role'))],
    ['never ends', () => new Promise<never>(() => {})],
  ])('a hook that %s leaves no connection behind', async (_, onConnect) => {
    const application_name = `renewal_${randomUUID()}`
    const pool = database.pool(hooked({ application_name }, onConnect))
    await expect(openSession(pool, 'renewal', session)).rejects.toMatchObject({ code: 'PAWL_NO_CONNECTION' })
    await database.backendsGone(application_name)
  })

  test('a listener that counts connections hears of its end, too', async () => {
    const heard: string[] = []
    const removed = gate()
    const pool = database.pool()
    let client: pg.PoolClient | undefined
    pool.on('connect', (connected) => {
      heard.push('connect')
      client = connected
    })
    pool.on('remove', () => {
      heard.push('remove')
      removed.open()
    })
    const opened = await openSession(pool, 'renewal', session)
    opened.release()
    await removed.opened
    expect(heard).toEqual(['connect', 'remove'])
    // One that nobody listened for would end the process.
    expect(client?.emit('error', new Error('read ETIMEDOUT'))).toBe(true)
  })
})

/** A role that may do nothing, which connections begin as, and one that may: hooks of the pool change to it. */
async function roles(): Promise<{ readonly powerless: string; readonly able: string }> {
  const name = randomUUID().replaceAll('-', '')
  const [powerless, able] = [`powerless_${name}`, `able_${name}`]
  const { schema, businessSchema } = database
  await database.rows(`CREATE ROLE ${powerless}; CREATE ROLE ${able}`)
  await database.rows(`GRANT USAGE ON SCHEMA ${schema}, ${businessSchema} TO ${able}`)
  await database.rows(`GRANT ALL ON ALL TABLES IN SCHEMA ${schema}, ${businessSchema} TO ${able}`)
  await database.rows(`GRANT ALL ON ALL SEQUENCES IN SCHEMA ${schema} TO ${able}`)
  onTestFinished(async () => {
    await database.rows(`DROP OWNED BY ${able}; DROP ROLE ${powerless}; DROP ROLE ${able}`)
  })
  return { powerless, able }
}

/** The types of `pg` say that the hook returns nothing; the pool awaits what it returns. */
function hooked(config: pg.PoolConfig, onConnect: (client: pg.ClientBase) => unknown): pg.PoolConfig {
  return Object.assign({}, config, { onConnect })
}

function raise(error: Error): never {
  throw error
}

/** A renewal of a key that is not there says so. */
function holdOfNoKey() {
  return { id: randomUUID(), fence: 1, holder: randomUUID(), recoveryPoint: 'started' }
}
