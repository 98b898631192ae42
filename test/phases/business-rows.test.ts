import { randomUUID } from 'node:crypto'
import { pawl, respond, retryLater, type Stager } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { CamelCasePlugin, type Generated, sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, type Database, pipeline } from '../support/rides.js'
import { expectWholePool } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider

beforeEach(async () => {
  database = await TestDatabase.createPlain()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
})
afterEach(() => database.drop())

const REQUEST = { scope: 's', key: 'k', input: null }
const audit = () => database.rows<{ what: string }>('SELECT what FROM audit ORDER BY what')

describe('keyId', () => {
  test('lets a row refer to its key and outlive it', async () => {
    const createRide = createRideOf(provider)
    const engine = createEngine({ pool: database.pool(), pipelines: [createRide], schema: database.schema })
    const request = { scope: 'rider', key: randomUUID(), input: { amount: 8 } }
    const outcome = await engine.execute(createRide, request)
    if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
    expect(await database.rows('SELECT key_id FROM rides')).toEqual([{ key_id: outcome.keyId }])
    await database.rows('DELETE FROM pawl.idempotency_keys')
    expect(await database.rows('SELECT key_id FROM rides')).toEqual([{ key_id: null }])
    await engine.close()
  })

  test('may be referred to by another session while a phase is about to commit', async () => {
    const target = pipeline({ name: 'referred', version: 1 }).finish(() => respond(204))
    const options = { pool: database.pool(), pipelines: [target], schema: database.schema }
    // This would wait, and fail, if the advance had locked the row's identity.
    const refer = async () => {
      await database.rows(`SET LOCAL lock_timeout = '1s';
        INSERT INTO rides (rider, amount, key_id) SELECT 'other', 1, id FROM pawl.idempotency_keys`)
    }
    const engine = createProbedEngine<Database>(options, ({ step, when }) =>
      step === 'commit' && when === 'before' ? refer() : undefined,
    )
    expect(await engine.execute(target, REQUEST)).toMatchObject({ type: 'completed' })
    expect(await database.rows('SELECT rider FROM rides')).toEqual([{ rider: 'other' }])
    await engine.close()
  })
})

test('a phase whose `when` says no is skipped without its call, the trail says so, and later phases go on', async () => {
  const target = pipeline<{ amount: number }>({ name: 'conditional', version: 1 })
    .local('greeted', () => ({ greeting: 'hello' }), { when: ({ input }) => input.amount > 100 })
    .foreign('charged', {
      when: ({ input, state }) => input.amount > 0 && state.greeting === undefined,
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      settle: ({ result }) => ({ chargeId: result.id }),
    })
    .finish(({ state }) => respond(200, { charged: state.chargeId !== undefined }))
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  const trails: unknown[] = []
  for (const amount of [0, 5, 500]) {
    const key = randomUUID()
    expect(await engine.execute(target, { scope: 's', key, input: { amount } })).toMatchObject({
      type: 'completed',
    })
    const view = await engine.inspect('s', key)
    trails.push(view?.trail.map(({ point, skipped }) => (skipped ? `${point} skipped` : point)))
  }
  expect(trails).toEqual([
    ['greeted skipped', 'charged skipped', 'finished'],
    ['greeted skipped', 'charged', 'finished'],
    ['greeted', 'charged skipped', 'finished'],
  ])
  expect(await provider.requests()).toHaveLength(1)
  expect(await database.rows('SELECT phase FROM pawl.effects')).toEqual([{ phase: 'charged' }])
  await engine.close()
})

test('plugins work on tx and engine.db, and never on the framework’s own statements', async () => {
  interface Camel {
    rides: { id: Generated<string>; rider: string; amount: number; chargeId: string | null; keyId: string }
  }
  const camel = pawl<Camel>()
  const target = camel
    .pipeline({ name: 'camel', version: 1 })
    .local('ride_created', async ({ tx, keyId }) => {
      const values = { rider: 'r', amount: 1, chargeId: 'ch', keyId }
      const row = await tx.insertInto('rides').values(values).returningAll().executeTakeFirstOrThrow()
      return { row_id: row.id, chargeId: row.chargeId }
    })
    .finish(({ state }) => respond(200, state))
  const engine = camel.createEngine({
    pool: database.pool(),
    pipelines: [target],
    schema: database.schema,
    plugins: [new CamelCasePlugin()],
  })
  const outcome = await engine.execute(target, REQUEST)
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  const [ride] = await database.rows<{ id: string; charge_id: string }>('SELECT * FROM rides')
  expect(ride?.charge_id).toBe('ch')
  expect(JSON.parse(outcome.response.body.toString())).toEqual({ row_id: ride?.id, chargeId: 'ch' })
  expect(await engine.db.selectFrom('rides').select(['chargeId', 'keyId']).execute()).toEqual([
    { chargeId: 'ch', keyId: outcome.keyId },
  ])
  await engine.close()
})

describe('stage', () => {
  /** A queue in the same database: its table is `audit`. */
  const queue: Stager<Database> = {
    stage: async ({ tx, name, payload, id, keyId }) => {
      const what = JSON.stringify({ name, payload, id: id.length, keyId: keyId.length })
      await tx.insertInto('audit').values({ what }).execute()
    },
  }
  const JOB = { name: 'mail', payload: { to: 'a', list: [1, null] }, id: 36, keyId: 36 }

  test.each(['table', 'queue'] as const)(
    'into the %s leaves a job exactly when its phase has committed',
    async (where) => {
      const turns = ['5xx', 'retryLater', 'throw', 'conflict']
      const target = pipeline({ name: 'staging', version: 1 }).finish(async ({ tx, stage }) => {
        await stage('mail', { to: 'a', list: [1, null] })
        switch (turns.shift()) {
          case '5xx':
            return respond(503)
          case 'retryLater':
            return retryLater()
          case 'throw':
            throw new Error('broken')
          case 'conflict':
            await sql`DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$`.execute(tx)
            return respond(500)
          default:
            return respond(201)
        }
      })
      const engine = createEngine({
        pool: database.pool(),
        pipelines: [target],
        schema: database.schema,
        ...(where === 'queue' ? { stager: queue } : {}),
      })
      const jobs = () =>
        where === 'queue' ? audit() : database.rows('SELECT name, payload, key_id FROM pawl.staged_jobs')
      for (let n = 0; n < 3; n++) {
        expect(await engine.execute(target, REQUEST)).toMatchObject({ type: 'retry_later' })
        expect(await jobs()).toEqual([])
      }
      const outcome = await engine.execute(target, REQUEST)
      if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
      const { name, payload } = JOB
      expect(await jobs()).toEqual(
        where === 'queue' ? [{ what: JSON.stringify(JOB) }] : [{ name, payload, key_id: outcome.keyId }],
      )
      await engine.close()
    },
  )

  test.each([
    ['', {}, 'stage: the name is'],
    ['x'.repeat(256), {}, 'stage: the name is'],
    ['a\0b', {}, 'stage: the name is'],
    ['mail', { runAfterMs: Number.NaN }, "job 'mail': runAfterMs is NaN"],
    ['mail', { runAfterMs: 1e15 }, "job 'mail': runAfterMs is 1000000000000000"],
    ['mail', { runAfter: 1 }, "job 'mail': unknown option 'runAfter'"],
  ])('refuses %j with %j by name, before anything is written', async (name, options: object, words) => {
    const target = pipeline({ name: 'staging', version: 1 }).finish(async ({ stage }) => {
      await stage(name, {}, options)
      return respond(201)
    })
    const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
    const message = expect.stringContaining(`phase 'finished', ${words}`) as string
    expect(await engine.execute(target, REQUEST)).toMatchObject({
      error: { code: 'PAWL_INVALID_OPTION', message },
    })
    await engine.close()
  })

  test('fails the phase if the payload is not JSON, and names the job', async () => {
    const target = pipeline({ name: 'staging', version: 1 }).finish(async ({ stage }) => {
      await stage('mail', { at: new Date(0) as unknown as string })
      return respond(201)
    })
    const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
    expect(await engine.execute(target, REQUEST)).toMatchObject({
      error: { code: 'PAWL_NOT_JSON', message: expect.stringMatching(/'mail'.*'finished'.*\.at/) as string },
    })
    await engine.close()
  })
})

function start() {
  const application = `db_${database.schema}`
  const pool = database.pool({ max: 1, application_name: application })
  const target = pipeline({ name: 'nesting', version: 1 }).finish(async () => {
    await engine.db.selectFrom('audit').selectAll().execute()
    return respond(200)
  })
  const engine = createEngine({ pool, pipelines: [target], schema: database.schema })
  return { engine, target, whole: () => expectWholePool(pool, database, application) }
}

describe('engine.db', () => {
  test('reads and writes, alone and in transactions, on a pool of one', async () => {
    const { engine, whole } = start()
    const inserted = await engine.db.insertInto('audit').values({ what: 'alone' }).executeTakeFirst()
    expect(inserted.numInsertedOrUpdatedRows).toBe(1n)
    await engine.db
      .transaction()
      .setIsolationLevel('serializable')
      .execute(async (tx) => tx.insertInto('audit').values({ what: 'together' }).execute())
    const undone = engine.db.transaction().execute(async (tx) => {
      await tx.insertInto('audit').values({ what: 'undone' }).execute()
      throw new Error('undo')
    })
    await expect(undone).rejects.toThrow('undo')
    expect(await engine.db.selectFrom('audit').select('what').orderBy('what').execute()).toEqual([
      { what: 'alone' },
      { what: 'together' },
    ])
    await whole()
    await engine.close()
  })

  test('notices when COMMIT was answered with ROLLBACK', async () => {
    const { engine, whole } = start()
    const swallowing = engine.db.transaction().execute(async (tx) => {
      await tx.insertInto('audit').values({ what: 'lost' }).execute()
      await sql`SELECT 1 / 0`.execute(tx).catch(() => {})
    })
    await expect(swallowing).rejects.toMatchObject({
      code: 'PAWL_TRANSACTION_ABORTED',
      cause: { code: '22012' },
    })
    expect(await audit()).toEqual([])
    await whole()
    await engine.close()
  })

  test('survives when its backend is killed in the middle', async () => {
    const { engine, whole } = start()
    const killed = engine.db.transaction().execute(async (tx) => {
      const { rows } = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`.execute(tx)
      await database.rows('SELECT pg_terminate_backend($1, 5000)', [rows[0]?.pid])
      await tx.insertInto('audit').values({ what: 'lost' }).execute()
    })
    await expect(killed).rejects.toMatchObject({ code: 'PAWL_CONNECTION_LOST' })
    await whole()
    await engine.close()
  })

  test('may not be used inside a phase, where it would wait for ever on an exhausted pool', async () => {
    const { engine, target, whole } = start()
    expect(await engine.execute(target, REQUEST)).toMatchObject({
      type: 'retry_later',
      error: { code: 'PAWL_NESTED_CHECKOUT', message: expect.stringContaining("'finished'") as string },
    })
    await whole()
    await engine.close()
  })
})
