import { randomUUID } from 'node:crypto'
import { createProbedEngine } from '@pawl/core/internal'
import pg from 'pg'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { openSession } from '../../packages/core/src/driver/open-session.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables, type Database } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'
import { hookedPoolConfig } from './hooked-pool-config.js'
import { leasesLeftMs } from './leases.js'
import { Spread } from '../../packages/core/src/driver/spread.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

test('an engine that is stopped while it opens the connection for renewals does not leave it open', async () => {
  const application_name = `renewal_${randomUUID()}`
  const opening = gate()
  const answer = gate()
  const connected = gate()
  // The pool connects with a callback; only the connection for renewals is awaited.
  class SlowClient extends pg.Client {
    override connect(): Promise<this>
    override connect(callback: (error: Error) => void): void
    override connect(callback?: (error: Error) => void): Promise<this> | void {
      return callback === undefined ? this.#connectSlowly() : super.connect(callback)
    }

    async #connectSlowly(): Promise<this> {
      opening.open()
      await answer.opened
      await super.connect()
      connected.open()
      return this
    }
  }
  const pool = database.pool({ application_name })
  Object.assign(pool, { Client: SlowClient })
  const trial = new RideTrial(database)
  const engine = createProbedEngine<Database>(trial.options(pool, { defaults: { leaseMs: 300 } }), () => {})
  await trial.provider.willMeet('hold_then_execute')
  const execution = trial.execute(engine)
  await trial.provider.arrived()
  await opening.opened
  engine.halt()
  answer.open()
  await connected.opened
  await trial.provider.letGo()
  expect((await execution).type).toBe('completed')
  await pool.end()
  await database.backendsGone(application_name)
})

describe("the connection for renewals is opened like the pool's own", () => {
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
          hookedPoolConfig(config, async (client) => {
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
    spread: new Spread(),
    preparedStatements: false,
    probe: null,
  }

  test.each([
    ['rejects', () => Promise.reject(new Error('no such role'))],
    ['throws', () => raise(new Error('no such role'))],
    ['never ends', () => new Promise<never>(() => {})],
  ])('and a hook that %s leaves no connection behind', async (_, onConnect) => {
    const application_name = `renewal_${randomUUID()}`
    const pool = database.pool(hookedPoolConfig({ application_name }, onConnect))
    await expect(openSession(pool, 'renewal', session)).rejects.toMatchObject({ code: 'PAWL_NO_CONNECTION' })
    await database.backendsGone(application_name)
  })

  test('and a listener that counts connections also hears when it ends', async () => {
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
    // An error that nobody listened for would end the process.
    expect(client?.emit('error', new Error('read ETIMEDOUT'))).toBe(true)
  })
})

/** A role that may do nothing, which connections begin with, and an able one, which the pool's hooks switch to. */
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

function raise(error: Error): never {
  throw error
}
