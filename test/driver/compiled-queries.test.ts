import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { type EngineOptions, type Given, pawl, respond } from '@pawl/core'
import { CamelCasePlugin, type Generated, sql, type Transaction } from 'kysely'
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { RiderPlugin } from '../support/value-plugins.js'

interface Database {
  things: {
    id: Generated<number>
    name: string
    amount: number | null
    tags: string[] | null
    bytes: Buffer | null
    at: Date | null
  }
}
type Thing = {
  name: string
  amount: number | null
  tags: string[] | null
  bytes: Buffer | null
  at: Date | null
}

const database = await TestDatabase.create()
await database.rows(`CREATE TABLE ${database.businessSchema}.things (id serial PRIMARY KEY, name text NOT NULL,
  amount integer, tags text[], bytes bytea, at timestamptz)`)
afterAll(() => database.drop())
beforeEach(async () => {
  await database.rows(`TRUNCATE ${database.businessSchema}.things RESTART IDENTITY`)
})

const { pipeline, createEngine, query } = pawl<Database>()

const insertThing = query((db, given: Given<Thing>) =>
  db
    .insertInto('things')
    .values({ name: given.name, amount: given.amount, tags: given.tags, bytes: given.bytes, at: given.at })
    .returning('id'),
)
const insertName = query((db, given: Given<{ name: string }>) =>
  db.insertInto('things').values({ name: given.name }),
)
const findThing = query((db, given: Given<{ id: number }>) =>
  db.selectFrom('things').selectAll().where('id', '=', given.id),
)
const renameThing = query((db, given: Given<{ id: number; name: string }>) =>
  db.updateTable('things').set({ name: given.name }).where('id', '=', given.id),
)
const removeThings = query((db, given: Given<{ ids: number[] }>) =>
  db.deleteFrom('things').where('id', '=', ({ fn }) => fn.any(given.ids)),
)

type Tx = Transaction<Database>

/** An engine that runs one phase as often as `run` is called, on one connection. */
function runnerOf(phase: (tx: Tx) => unknown, options: Partial<EngineOptions<Database>> = {}) {
  const pool = database.pool({ max: 1 })
  const once = pipeline<null>({ name: 'once', version: 1 })
    .local('done', async ({ tx }) => void (await phase(tx)))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [once], schema: database.schema, ...options })
  onTestFinished(() => engine.close())
  return { pool, engine, run: () => engine.execute(once, { scope: 's', key: randomUUID(), input: null }) }
}

const names = async () =>
  (
    await database.rows<{ name: string }>(`SELECT name FROM ${database.businessSchema}.things ORDER BY id`)
  ).map(({ name }) => name)

const NOTHING = { amount: null, tags: null, bytes: null, at: null }

describe('compiled queries in a phase', () => {
  test('insert, select, update and delete what plain ones would, and return the same', async () => {
    const seen: unknown[] = []
    const { run } = runnerOf(async (tx) => {
      const { id } = await insertThing(tx, { ...NOTHING, name: 'a' }).executeTakeFirstOrThrow()
      await insertThing(tx, { ...NOTHING, name: 'b' }).execute()
      const compiled = [
        await findThing(tx, { id }).executeTakeFirst(),
        await findThing(tx, { id: -1 }).executeTakeFirst(),
        await insertName(tx, { name: 'c' }).executeTakeFirst(),
        await renameThing(tx, { id, name: 'd' }).executeTakeFirst(),
        await removeThings(tx, { ids: [2, 3] }).execute(),
      ]
      const plain = [
        { ...(await tx.selectFrom('things').selectAll().where('id', '=', id).executeTakeFirst()), name: 'a' },
        await tx.selectFrom('things').selectAll().where('id', '=', -1).executeTakeFirst(),
        await tx.insertInto('things').values({ name: 'e' }).executeTakeFirst(),
        await tx.updateTable('things').set({ name: 'd' }).where('id', '=', id).executeTakeFirst(),
        await tx.deleteFrom('things').where('id', 'in', [4, -1]).execute(),
      ]
      expect(compiled.slice(0, 4)).toEqual(plain.slice(0, 4))
      seen.push(compiled[4], plain[4])
    })
    expect(await run()).toMatchObject({ type: 'completed' })
    expect(seen).toEqual([[{ numDeletedRows: 2n }], [{ numDeletedRows: 1n }]])
    expect(await names()).toEqual(['d'])
  })

  test('send arrays, nulls, buffers and dates as plain ones do', async () => {
    const thing = {
      name: `'; DROP TABLE things; --`,
      amount: 7,
      tags: ['x', 'y, "z"'],
      bytes: Buffer.from([0, 255]),
      at: new Date(5),
    }
    const { run } = runnerOf(async (tx) => {
      for (const values of [thing, { ...NOTHING, name: '' }]) {
        const { id } = await insertThing(tx, values).executeTakeFirstOrThrow()
        const plain = await tx.insertInto('things').values(values).returning('id').executeTakeFirstOrThrow()
        const [first, second] = await Promise.all(
          [id, plain.id].map((each) => findThing(tx, { id: each }).execute()),
        )
        expect(first).toEqual([{ ...values, id }])
        expect(second).toEqual([{ ...values, id: plain.id }])
      }
    })
    expect(await run()).toMatchObject({ type: 'completed' })
  })

  test('are in its transaction: what fails is rolled back', async () => {
    const { run } = runnerOf(async (tx) => {
      await insertName(tx, { name: 'lost' }).execute()
      throw new Error('no')
    })
    expect(await run()).toMatchObject({ type: 'retry_later' })
    expect(await names()).toEqual([])
  })

  test('go out in the order in which they were begun, among plain ones', async () => {
    const { run } = runnerOf(async (tx) => {
      await Promise.all([
        insertName(tx, { name: '1' }).execute(),
        tx.insertInto('things').values({ name: '2' }).execute(),
        insertName(tx, { name: '3' }).execute(),
        sql`INSERT INTO things (name) VALUES (${'4'})`.execute(tx),
      ])
    })
    expect(await run()).toMatchObject({ type: 'completed' })
    expect(await names()).toEqual(['1', '2', '3', '4'])
  })

  test('are refused after it has returned', async () => {
    let kept: Tx | undefined
    const { run } = runnerOf((tx) => {
      kept = tx
    })
    await run()
    await expect(insertName(kept as Tx, { name: 'late' }).execute()).rejects.toMatchObject({
      code: 'PAWL_TRANSACTION_CLOSED',
    })
    expect(await names()).toEqual([])
  })

  test('that cannot be compiled once fail it, and the error says why', async () => {
    const wrong = query((db, given: Given<{ name: string }>) =>
      db.insertInto('things').values({ name: JSON.stringify(given.name) }),
    )
    const { run } = runnerOf((tx) => wrong(tx, { name: 'a' }).execute())
    expect(await run()).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_INVALID_QUERY' } })
  })
})

test('compiled queries of many requests at once keep their values apart', async () => {
  const pool = database.pool({ max: 5 })
  const noted = pipeline<{ name: string }>({ name: 'noted', version: 1 }).finish(async ({ tx, input }) => {
    const { id } = await insertThing(tx, { ...NOTHING, name: input.name }).executeTakeFirstOrThrow()
    const found = await findThing(tx, { id }).executeTakeFirstOrThrow()
    return respond(200, { name: found.name })
  })
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema })
  const sent = Array.from({ length: 50 }, (_, index) => `name ${index}`)
  const answered = await Promise.all(
    sent.map(async (name) => {
      const outcome = await engine.execute(noted, { scope: 's', key: randomUUID(), input: { name } })
      return outcome.type === 'completed'
        ? (JSON.parse(outcome.response.body.toString()) as unknown)
        : outcome
    }),
  )
  expect(answered).toEqual(sent.map((name) => ({ name })))
  await engine.close()
})

describe('compiled queries on engine.db', () => {
  test('run by themselves, and in its transactions', async () => {
    const { engine } = runnerOf(() => {})
    await insertName(engine.db, { name: 'alone' }).execute()
    await engine.db.transaction().execute((trx) => insertName(trx, { name: 'committed' }).execute())
    const failing = engine.db.transaction().execute(async (trx) => {
      await insertName(trx, { name: 'rolled back' }).execute()
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await names()).toEqual(['alone', 'committed'])
  })

  test('find the tables of another schema', async () => {
    const { engine } = runnerOf(() => {})
    await database.rows(`CREATE SCHEMA IF NOT EXISTS ${database.businessSchema}_2`)
    await database.rows(
      `CREATE TABLE ${database.businessSchema}_2.things (LIKE ${database.businessSchema}.things INCLUDING DEFAULTS)`,
    )
    onTestFinished(async () => void (await database.rows(`DROP SCHEMA ${database.businessSchema}_2 CASCADE`)))
    await insertName(engine.db, { name: 'here' }).execute()
    await insertName(engine.db.withSchema(`${database.businessSchema}_2`), { name: 'there' }).execute()
    expect(await names()).toEqual(['here'])
    expect(await database.rows(`SELECT name FROM ${database.businessSchema}_2.things`)).toEqual([
      { name: 'there' },
    ])
  })
})

test('plugins of the engine see the query and its rows, and another engine has its own', async () => {
  interface CamelDatabase {
    tripLegs: { legId: Generated<number>; fromPlace: string }
  }
  await database.rows(`CREATE TABLE ${database.businessSchema}.trip_legs (leg_id serial, from_place text)`)
  onTestFinished(async () => void (await database.rows(`DROP TABLE ${database.businessSchema}.trip_legs`)))
  const camel = pawl<CamelDatabase>()
  const insertLeg = camel.query((db, given: Given<{ place: string }>) =>
    db.insertInto('tripLegs').values({ fromPlace: given.place }).returning(['legId', 'fromPlace']),
  )
  const inserted = camel.pipeline<null>({ name: 'leg', version: 1 }).finish(async ({ tx }) => {
    const first = await insertLeg(tx, { place: 'A' }).executeTakeFirstOrThrow()
    const second = await insertLeg(tx, { place: 'B' }).executeTakeFirstOrThrow()
    return respond(200, [first, second])
  })
  const common = { pool: database.pool({ max: 2 }), schema: database.schema }
  const engine = camel.createEngine({ ...common, pipelines: [inserted], plugins: [new CamelCasePlugin()] })
  const outcome = await engine.execute(inserted, { scope: 's', key: randomUUID(), input: null })
  if (outcome.type !== 'completed') throw new Error(outcome.type)
  expect(JSON.parse(outcome.response.body.toString())).toEqual([
    { legId: 1, fromPlace: 'A' },
    { legId: 2, fromPlace: 'B' },
  ])
  expect(await insertLeg(engine.db, { place: 'C' }).execute()).toEqual([{ legId: 3, fromPlace: 'C' }])
  const without = camel.createEngine({ ...common, pipelines: [] })
  const literal = insertLeg(without.db, { place: 'D' })
  await expect(literal.execute()).rejects.toThrow('relation "tripLegs" does not exist')
  await Promise.all([engine.close(), without.close()])
})

test('a plugin that keeps tenants apart keeps them apart in compiled queries, in what is read and what is written', async () => {
  const tenant = new AsyncLocalStorage<string>()
  await database.rows(`CREATE TABLE ${database.businessSchema}.rides (id integer, rider text, note text);
    INSERT INTO ${database.businessSchema}.rides VALUES (1, 'a', ''), (1, 'b', '')`)
  onTestFinished(async () => void (await database.rows(`DROP TABLE ${database.businessSchema}.rides`)))
  const {
    pipeline: define,
    createEngine: create,
    query: once,
  } = pawl<{ rides: { id: number; rider: string; note: string } }>()
  const find = once((db, given: Given<{ id: number }>) =>
    db.selectFrom('rides').select('rider').where('id', '=', given.id),
  )
  const annotate = once((db, given: Given<{ id: number; note: string }>) =>
    db.updateTable('rides').set({ note: given.note }).where('id', '=', given.id),
  )
  const annotated = define<null>({ name: 'annotated', version: 1 }).finish(async ({ tx, write, scope }) => {
    write(annotate(tx, { id: 1, note: `of ${scope}` }))
    return respond(200, await find(tx, { id: 1 }).execute())
  })
  const plugins = [new RiderPlugin(() => tenant.getStore() ?? 'nobody')]
  const engine = create({
    pool: database.pool({ max: 1 }),
    schema: database.schema,
    pipelines: [annotated],
    plugins,
  })
  const answers = []
  for (const scope of ['a', 'b', 'a']) {
    const outcome = await tenant.run(scope, () =>
      engine.execute(annotated, { scope, key: randomUUID(), input: null }),
    )
    if (outcome.type === 'completed') answers.push(JSON.parse(outcome.response.body.toString()))
  }
  expect(answers).toEqual([[{ rider: 'a' }], [{ rider: 'b' }], [{ rider: 'a' }]])
  expect(await database.rows('SELECT rider, note FROM rides ORDER BY rider')).toEqual([
    { rider: 'a', note: 'of a' },
    { rider: 'b', note: 'of b' },
  ])
  await engine.close()
})

test('with preparedQueries, a compiled query and a plain one of the same text are one prepared statement', async () => {
  let id = 0
  const compiled = (tx: Tx) => findThing(tx, { id: ++id }).execute()
  const plain = (tx: Tx) => tx.selectFrom('things').selectAll().where('id', '=', ++id).execute()
  const { pool, run } = runnerOf((tx) => (id % 2 === 0 ? compiled(tx) : plain(tx)), { preparedQueries: true })
  for (let time = 0; time < 8; time++) expect(await run()).toMatchObject({ type: 'completed' })
  const { rows } = await pool.query<{ statement: string }>(
    `SELECT statement FROM pg_prepared_statements WHERE name LIKE 'pawl_query%'`,
  )
  expect(rows).toEqual([{ statement: 'select * from "things" where "id" = $1' }])
})
