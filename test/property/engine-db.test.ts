import { randomUUID } from 'node:crypto'
import { createEngine } from '@pawl/core'
import fc from 'fast-check'
import { sql, type Transaction } from 'kysely'
import { afterAll, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { AWAITS, type Awaits, type Loose } from './pipelines/body-style.js'
import { createFactTables, type FactDatabase } from './pipelines/fact-tables.js'
import { loose } from './pipelines/random-style.js'
import { pass } from './pipelines/send-loose.js'
import { amountOf } from '../support/amounts.js'
import { assertProperty } from './support/assert-property.js'

const RUNS = amountOf('runs')

/** Each case opens its own connections. */
const DB_RUNS = Math.ceil(RUNS / 2)

/** `fails`: the database refuses it. `rejects`: it fails without asking the database. */
const MEMBERS = ['insert', 'slow', 'fails', 'rejects'] as const
type Member = (typeof MEMBERS)[number]

interface DbCase {
  readonly awaits: Awaits
  readonly members: readonly Member[]
  readonly forgotten: readonly Loose[]
  readonly pipelining: boolean
}

const dbCase: fc.Arbitrary<DbCase> = fc.record({
  awaits: fc.constantFrom(...AWAITS),
  members: fc.array(
    fc.oneof({ weight: 3, arbitrary: fc.constant<Member>('insert') }, fc.constantFrom(...MEMBERS)),
    { maxLength: 5 },
  ),
  forgotten: fc.array(loose, { maxLength: 2 }),
  pipelining: fc.boolean(),
})

const database = await TestDatabase.create()
await createFactTables(database.admin, database.businessSchema)
afterAll(() => database.drop())

function start(tx: Transaction<FactDatabase>, run: string, member: Member, n: number): Promise<unknown> {
  switch (member) {
    case 'insert':
      return tx.insertInto('facts').values({ run, phase: 'db', n, value: '0' }).execute()
    case 'slow':
      return sql`SELECT pg_sleep(0.003)`.execute(tx)
    case 'fails':
      return sql`SELECT 1 / 0`.execute(tx)
    case 'rejects':
      return Promise.reject(new Error('as planned'))
  }
}

async function work(tx: Transaction<FactDatabase>, run: string, { awaits, members, forgotten }: DbCase) {
  const forget = (index: number): void => void start(tx, run, 'insert', 100 + index).catch(() => {})
  const forgetAll = (place: Loose['at']): void => {
    for (const [index, { at }] of forgotten.entries()) if (at === place) forget(index)
  }
  for (const [index, { at }] of forgotten.entries())
    if (typeof at === 'object') void pass(at.after, at.turns).then(() => forget(index))
  forgetAll('first')
  const all = () => members.map((member, n) => start(tx, run, member, n))
  switch (awaits) {
    case 'in_turn':
      for (const [n, member] of members.entries()) await start(tx, run, member, n)
      break
    case 'all':
      await Promise.all(all())
      break
    case 'all_settled':
      await Promise.allSettled(all())
      break
    case 'race':
      if (members.length > 0) await Promise.race(all())
  }
  forgetAll('middle')
  forgetAll('last')
}

test('I15: a statement in a transaction of engine.db is executed in that transaction, or not at all', () =>
  assertProperty(
    fc.asyncProperty(dbCase, async (each) => {
      const run = randomUUID()
      const pool = database.pool({ max: 2 })
      const { schema } = database
      const engine = createEngine<FactDatabase>({ pool, pipelines: [], schema, pipelining: each.pipelining })
      const committed = await engine.db
        .transaction()
        .execute((tx) => work(tx, run, each))
        .then(
          () => true,
          () => false,
        )
      await engine.close()
      // A statement that is still on its way finds no connection, and what was sent is answered.
      await pool.end()
      const rows = await database.rows<{ n: number; xmin: string }>(
        'SELECT n, xmin::text FROM facts WHERE run = $1 ORDER BY n',
        [run],
      )
      // There are no savepoints here, so one transaction has one id.
      expect(new Set(rows.map(({ xmin }) => xmin)).size).toBeLessThanOrEqual(1)
      if (!committed) expect(rows).toEqual([])
      else if (each.awaits !== 'race') {
        const wanted = each.members.flatMap((member, n) => (member === 'insert' ? [n] : []))
        expect(rows.map(({ n }) => n).filter((n) => n < 100)).toEqual(wanted)
      }
    }),
    DB_RUNS,
  ))

test('I15: a transaction of engine.db that has ended accepts no statement, and puts none into the transaction of another', async () => {
  const run = randomUUID()
  // There is one connection, so whoever comes next gets that of the first.
  const pool = database.pool({ max: 1 })
  const engine = createEngine<FactDatabase>({ pool, pipelines: [], schema: database.schema })
  const over: Transaction<FactDatabase>[] = []
  await engine.db.transaction().execute(async (tx) => void over.push(tx))
  const [late] = await engine.db.transaction().execute(async (tx) => {
    await start(tx, run, 'insert', 0)
    return Promise.allSettled(over.map((each) => start(each, run, 'insert', 1)))
  })
  await engine.close()
  expect(late?.status).toBe('rejected')
  expect(await database.rows('SELECT n FROM facts WHERE run = $1', [run])).toEqual([{ n: 0 }])
})

test('I15: a statement that a transaction of engine.db forgot to await does not end up in the transaction of another', async () => {
  const [forgetful, other] = [randomUUID(), randomUUID()]
  const pool = database.pool({ max: 1 })
  const engine = createEngine<FactDatabase>({ pool, pipelines: [], schema: database.schema })
  const forgotten: Promise<unknown>[] = []
  await engine.db.transaction().execute(async (tx) => {
    // This is what `items.forEach(async (item) => …)` does.
    for (const n of [0, 1, 2, 3, 4, 5]) forgotten.push(start(tx, forgetful, 'insert', n).catch(() => {}))
  })
  await engine.db.transaction().execute(async (tx) => {
    for (const n of [0, 1, 2, 3]) await start(tx, other, 'insert', n)
  })
  await Promise.all(forgotten)
  await engine.close()
  const idsOf = async (run: string) =>
    database.rows<{ xmin: string }>('SELECT DISTINCT xmin::text FROM facts WHERE run = $1', [run])
  const others = await idsOf(other)
  expect(others).toHaveLength(1)
  for (const id of await idsOf(forgetful)) expect(others).not.toContainEqual(id)
})
