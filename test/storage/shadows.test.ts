import { createBackground, createOperator, migrate, respond, retryLater } from '@pawl/core'
import { graphileStager } from '@pawl/graphile-worker'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pawl } from '../cli/pawl.js'
import { GraphileDatabase } from '../graphile-worker/graphile-database.js'
import { LAYOUT } from '../support/layout.js'
import { Shadows } from '../support/shadows.js'
import { createEngine, pipeline } from '../support/rides.js'
import { seedJob, seedKey } from '../support/seeded-rows.js'
import type { TestDatabase } from '../support/test-database.js'

/**
 * Does everything that the framework does, under search paths with a shadow of every operator, function, type and catalog that
 * its SQL could mean. Each of them fails when it is called.
 */

let graphile: GraphileDatabase
let database: TestDatabase
let shadows: Shadows
beforeAll(async () => {
  graphile = await GraphileDatabase.create()
  database = graphile.database
  shadows = await Shadows.plant(database, 'raise')
})
afterAll(async () => {
  await database.admin.query(`DROP SCHEMA ${shadows.schema} CASCADE`)
  await graphile.drop()
})

const because = { actor: 'anna', reason: 'to see' }
/** The phases have no SQL of their own except inserts, since an operator in them would be a shadow's. */
const order = pipeline<{ amount: number }>({ name: 'order', version: 1 })
  .local('placed', async ({ tx, input, scope }) => {
    await tx.insertInto('rides').values({ rider: scope, amount: input.amount }).execute()
  })
  .foreign('charged', { call: async () => 'ch_1', settle: () => ({}), reference: (result) => result })
  .local('wrapped', () => undefined, { when: () => false })
  .finish(async ({ stage }) => {
    await stage('send_receipt', {})
    return respond(201)
  })
const parcel = pipeline<null>({ name: 'parcel', version: 1, maxAttempts: 1 })
  .foreign('sent', {
    guarantee: 'at_most_once',
    call: async () => {
      throw new Error('cut off')
    },
  })
  .finish(() => respond(200))
const patient = pipeline<null>({ name: 'patient', version: 1 })
  .local('asked', () => retryLater(undefined, { afterMs: 1 }))
  .finish(() => respond(200))

describe.each(['first', 'behindCatalog'] as const)('with shadows %s', (where) => {
  const pool = (config: pg.PoolConfig = {}) => database.pool({ ...config, options: shadows[where] })

  test('the shadows are on the path, and fail when they are called', async () => {
    const sum = where === 'first' ? 'SELECT 1 + 1' : 'SELECT 1.5::numeric * 2::integer'
    await expect(pool().query(sum)).rejects.toThrow('a shadow was called')
  })

  test.each([true, false])('requests work, pipelined: %s', async (pipelining) => {
    const engine = createEngine({
      pool: pool(),
      schema: database.schema,
      pipelines: [order, parcel, patient],
      pipelining,
    })
    const key = `${where} ${pipelining}`
    const request = { scope: 's', key, input: { amount: 7 } }
    expect(await engine.execute(order, request)).toMatchObject({ type: 'completed' })
    expect(await engine.execute(order, request)).toMatchObject({ type: 'replayed' })
    expect(await engine.execute(order, { ...request, input: { amount: 8 } })).toMatchObject({
      type: 'mismatch',
    })
    expect(await engine.enqueue(order, { ...request, key: `${key} later` })).toMatchObject({
      type: 'enqueued',
    })
    expect(await engine.execute(parcel, { ...request, key: `${key} parcel`, input: null })).toMatchObject({
      type: 'stuck',
    })
    const waiting = { ...request, key: `${key} patient`, input: null }
    expect(await engine.execute(patient, waiting)).toMatchObject({ type: 'retry_later' })
    expect(await engine.execute(patient, waiting)).toMatchObject({ type: 'retry_later' })
    expect(await engine.inspect('s', key)).toMatchObject({ status: 'finished' })
    await engine.close()
  })

  test('background services work', async () => {
    await seedKey(database, { status: 'finished', expiresIn: '-1 s' })
    const engine = createEngine({ pool: pool(), schema: database.schema, pipelines: [order] })
    const background = createBackground({
      engine,
      relay: { sink: { deliver: async (jobs) => jobs.map(() => ({ type: 'delivered' }) as const) } },
    })
    const { completer, relays, reaper } = await background.runOnce()
    expect(completer?.completed).toBeGreaterThan(1)
    expect(relays[0]?.delivered).toBeGreaterThan(0)
    expect(reaper).toMatchObject({ deleted: 1 })
    await engine.close()
  })

  test("jobs get into graphile-worker's tables", async () => {
    const stager = graphileStager({ schema: graphile.schema })
    const engine = createEngine({ pool: pool(), schema: database.schema, pipelines: [order], stager })
    // Its own function looks names up as it pleases; what matters here is that it is called.
    const outcome = await engine.execute(order, { scope: 'graphile', key: where, input: { amount: 7 } })
    const { error } = outcome as { error?: { where?: string } }
    expect(error?.where ?? graphile.schema).toContain(graphile.schema)
    await engine.close()
  })

  test('an operator works', async () => {
    const operator = createOperator({ pool: pool(), schema: database.schema })
    const [one, two, three] = ['unstuck', 'answered', 'held'].map((name) => ({
      scope: 's',
      key: `${where} ${name}`,
    }))
    if (one === undefined || two === undefined || three === undefined) throw new Error('three')
    await seedKey(database, { ...one, status: 'stuck' })
    await seedKey(database, { ...two, status: 'stuck' })
    await seedKey(database, { ...three, leaseIn: '10 min' })
    await seedJob(database, { deadAgo: '1 s' })
    const day = { from: new Date(Date.now() - 86_400_000), to: new Date() }
    expect(await operator.status()).toMatchObject({})
    for (const status of ['running', 'stuck', 'unattended', 'finished'] as const)
      await operator.list({ status })
    await operator.show(one)
    await operator.unstick(one, because)
    await operator.answer(two, because, { status: 410 })
    await operator.revoke(three, because)
    expect(await operator.deadJobs()).toHaveLength(1)
    expect(await operator.requeue({ all: true }, because)).toMatchObject({})
    await operator.drain('order', 1)
    await operator.reap(because)
    await operator.countUnfinished(new Date())
    await operator.hasKeysOf('order')
    for await (const effect of operator.effects(day)) expect(effect.reference).toBe('ch_1')
    expect((await operator.doctor()).map(({ check }) => check)).toContain('bloat')
  })

  test('a migration works, and uses no shadow in what it creates', async () => {
    const made = `${database.businessSchema}_made`
    await migrate(pool({ max: 1 }), { schema: made, ...LAYOUT })
    await migrate(pool({ max: 1 }), { schema: made })
    const columns = `SELECT table_name, column_name, udt_schema, udt_name, column_default FROM information_schema.columns
                      WHERE table_schema = $1 ORDER BY table_name, ordinal_position`
    expect(await database.rows(columns, [made])).toEqual(await database.rows(columns, [database.schema]))
    const [{ shadows: found }] = (await database.rows(
      `SELECT count(*)::int AS shadows FROM pg_depend
        WHERE (pg_identify_object(refclassid, refobjid, 0)).schema = $1
          AND (pg_identify_object(classid, objid, 0)).schema = $2`,
      [shadows.schema, made],
    )) as [{ shadows: number }]
    expect(found).toBe(0)
    await database.admin.query(`DROP SCHEMA ${made} CASCADE`)
  })

  test.each([
    ['status'],
    ['list', '--status', 'stuck'],
    ['dead'],
    ['doctor'],
    ['migrate'],
    ['reap'],
    ['drain', 'order@1'],
    ['show', 'graphile', 'no such key'],
    ['requeue', '--all', '--reason', 'x'],
  ])('pawl %s works', async (command, ...argv) => {
    const url = new URL(database.url)
    url.searchParams.set('options', shadows[where])
    const env = { DATABASE_URL: url.href, PAWL_ACTOR: 'anna' }
    const { exit, out, err } = await pawl([command, '--schema', database.schema, ...argv], { env })
    // 1 means that there is no such key, and 3 that there is something to look at.
    expect({ exit, err }).toEqual(
      command === 'show'
        ? { exit: 1, err: expect.stringContaining('There is no key') as unknown }
        : { exit: expect.toBeOneOf([0, 3]) as unknown, err: '' },
    )
    expect(out).not.toContain('shadow')
  })
})
