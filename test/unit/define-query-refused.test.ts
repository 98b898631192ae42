import { randomUUID } from 'node:crypto'
import { type Given, pawl } from '@pawl/core'
import { type Kysely, type QueryCreator, sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { type Database, compilingDb } from '../support/compiling-db.js'
import { queryRefusal } from '../support/query-refusal.js'

const { query } = pawl<Database>()
const db = compilingDb()
type Ride = { rider: string; amount: number }
type Id = { id: string }
type Charge = { charge: string | null }

describe('a definition is refused at its first use', () => {
  // What the compiler would not let through, or the linter: here the parameter passes for a text.
  const reads: [string, (id: string) => unknown][] = [
    ['in a template', (id) => `ride ${id}`],
    ['as text', String],
    ['joined', (id) => 'ride ' + id],
    ['as JSON', (id) => JSON.stringify(id)],
    ['in JSON', (id) => JSON.stringify({ ride: [id] })],
    ['as a number', Number],
    ['compared', (id) => (id > 'm' ? 'late' : 'early')],
    ['by a member', (id) => id.length],
    ['by a method', (id) => id.trim()],
    ['spread', (id) => ({ ...(id as never as object) })],
    ['iterated', (id) => Array.from(id)],
    ['as a key', (id) => ({ [id]: 1 })],
    ['as a Date', (id) => new Date(id)],
    ['as a literal', (id) => sql.lit(id)],
    ['as raw SQL', (id) => sql.raw(id)],
    ['as a column', (id) => sql.ref(id)],
    ['awaited', (id) => (id as never as Promise<unknown>).then(() => 1)],
  ]

  test.each(reads)('that reads a parameter %s', (_, read) => {
    const reading = query((from, given: Given<Id>) =>
      from
        .selectFrom('rides')
        .selectAll()
        .where('id', '=', read(given.id as never) as string),
    )
    for (let time = 0; time < 2; time++) {
      const error = queryRefusal(() => reading(db, { id: '1' }))
      expect(error).toMatchObject({ code: 'PAWL_INVALID_QUERY' })
      expect(error.message).toContain("read its parameter 'id'")
    }
  })

  const conditions: [string, (tx: Kysely<Database>, values: Charge) => unknown][] = [
    [
      'if',
      query((from, g: Given<Charge>) => {
        const all = from.selectFrom('rides').selectAll()
        return g.charge ? all.where('charge_id', '=', g.charge) : all
      }),
    ],
    [
      '=== null',
      query((from, g: Given<Charge>) =>
        (g.charge as unknown) === null
          ? from.selectFrom('rides').selectAll().where('charge_id', 'is', null)
          : from.selectFrom('rides').selectAll().where('charge_id', '=', g.charge),
      ),
    ],
    [
      'a check that throws',
      query((from, g: Given<Charge>) => {
        if (!g.charge) throw new Error('there is no charge')
        return from.selectFrom('rides').selectAll().where('charge_id', '=', g.charge)
      }),
    ],
    [
      'a branch that would read it',
      query((from, g: Given<Charge>) =>
        from.updateTable('rides').set({ charge_id: g.charge || JSON.stringify([g]) }),
      ),
    ],
    [
      '??',
      query((from, g: Given<Charge>) => from.updateTable('rides').set({ charge_id: g.charge ?? 'none' })),
    ],
    [
      '||',
      query((from, g: Given<Charge>) => from.updateTable('rides').set({ charge_id: g.charge || 'none' })),
    ],
    [
      'a default',
      query((from, given: Given<Charge>) => {
        const { charge = 'none' } = given as never as Partial<Charge>
        return from.updateTable('rides').set({ charge_id: charge })
      }),
    ],
    [
      'is',
      query((from, g: Given<Charge>) =>
        from.selectFrom('rides').selectAll().where('charge_id', 'is', g.charge),
      ),
    ],
    [
      'a filter object',
      query((from, g: Given<Charge>) =>
        from
          .selectFrom('rides')
          .selectAll()
          .where((eb) => eb.and({ charge_id: g.charge })),
      ),
    ],
    [
      'a CASE',
      query((from, g: Given<Charge>) =>
        from.selectFrom('rides').select((eb) => eb.case().when('id', '=', '1').then(g.charge).end().as('a')),
      ),
    ],
  ]

  test.each(conditions)('whose SQL depends on a parameter: %s', (_, use) => {
    const error = queryRefusal(() => use(db, { charge: 'ch' }))
    expect(error).toMatchObject({ code: 'PAWL_INVALID_QUERY' })
    expect(error.message).toContain("depends on its parameter 'charge'")
  })

  test('that only decides by a parameter', () => {
    const flagged = query((from, g: Given<{ all: boolean }>) => {
      const rides = from.selectFrom('rides').selectAll()
      return g.all ? rides : rides.limit(1)
    })
    expect(queryRefusal(() => flagged(db, { all: true })).message).toMatch(/parameter 'all'/)
  })

  test('that asks for a parameter and does not send it', () => {
    const ignoring = query((from, g: Given<Id>) => {
      void g.id
      return from.selectFrom('rides').selectAll()
    })
    expect(queryRefusal(() => ignoring(db, { id: '1' })).message).toContain(
      "asked for its parameter 'id' and does not send it",
    )
  })

  test('that has a parameter as the list of an IN', () => {
    const among = query((from, g: Given<{ ids: string[] }>) =>
      from
        .selectFrom('rides')
        .selectAll()
        .where('id', 'not in', g.ids as never),
    )
    expect(queryRefusal(() => among(db, { ids: ['1'] })).message).toContain('fn.any(given.ids)')
  })

  test('that lists its parameters', () => {
    const spread = query((from, g: Given<Ride>) => from.insertInto('rides').values({ ...g }))
    const whole = query((from, g: Given<Ride>) => from.insertInto('rides').values(g))
    const rest = query((from, { rider, ...others }: Given<Ride>) =>
      from.insertInto('rides').values({ rider, ...others }),
    )
    for (const use of [spread, whole, rest])
      expect(queryRefusal(() => use(db, { rider: 'a', amount: 1 })).message).toContain('Name each')
  })

  test('that contains a value which would be shared, or is another one each time', () => {
    const dated = query((from) => from.updateTable('rides').set({ at: new Date() }))
    expect(queryRefusal(() => dated(db)).message).toContain('contains a Date that all its uses would share')
    const random = query((from) => from.updateTable('rides').set({ charge_id: randomUUID() }))
    expect(queryRefusal(() => random(db)).message).toContain('another one each time')
  })

  const named: [
    string,
    (from: QueryCreator<Database>, given: Given<{ of: string; is: string }>) => unknown,
  ][] = [
    ['as a column', (from, given) => from.deleteFrom('rides').where(given.of, '!=', given.is)],
    [
      'as a column beside a constant',
      (from, given) => from.deleteFrom('rides').where(given.of, '=', 'x').where('id', '=', given.is),
    ],
    [
      'as a column in an expression',
      (from, given) =>
        from.deleteFrom('rides').where((eb) => eb.or([eb(given.of, 'is', null), eb('id', '=', given.is)])),
    ],
    [
      'to sort by',
      (from, given) => from.selectFrom('rides').selectAll().where('id', '=', given.is).orderBy(given.of),
    ],
    [
      'to group by',
      (from, given) => from.selectFrom('rides').select('id').where('id', '=', given.is).groupBy(given.of),
    ],
  ]

  test.each(named)('that takes a parameter for a name, %s', (_, define) => {
    const defined = query(define as never) as unknown as (on: Kysely<Database>, values: object) => unknown
    expect(queryRefusal(() => defined(db, { of: 'id', is: '1' })).message).toContain("'of' is a value")
  })

  test('but not one whose parameter is compared with a column, or cast', () => {
    const tagged = query((from, given: Given<Id>) =>
      from
        .selectFrom('rides')
        .select('id')
        .where((eb) => eb(eb.val(given.id), '=', eb.ref('rider')))
        .where((eb) => eb.or([eb(eb.cast(given.id, 'text'), 'is', null), eb('id', '=', given.id)]))
        .orderBy(sql`${given.id}::text`),
    )
    expect(tagged(db, { id: '1' }).compile().parameters).toEqual(['1', '1', '1', '1'])
  })

  test.each([
    ['a number', (value: unknown) => typeof value === 'number'],
    ['a truth value', (value: unknown) => typeof value === 'boolean'],
    ['a Date', (value: unknown) => value instanceof Date],
  ])('that asks whether a parameter is %s', (_, is) => {
    const asking = query((from, given: Given<Id>) => {
      const one = from.selectFrom('rides').select('id').where('id', '=', given.id)
      return is(given.id) ? one.where('rider', '=', 'nobody') : one
    })
    expect(queryRefusal(() => asking(db, { id: '1' })).message).toContain("depends on its parameter 'id'")
  })

  test('that executes its query, or returns none', async () => {
    const executed = query(((from: Kysely<Database>) =>
      from.selectFrom('rides').selectAll().execute()) as never)
    const nothing = query((() => undefined) as never)
    for (const use of [executed, nothing])
      expect(queryRefusal(() => use(db)).message).toContain('has to return a query of Kysely')
  })
})
