import { inspect } from 'node:util'
import { type Given, pawl } from '@pawl/core'
import { CamelCasePlugin, type Kysely, type QueryResult, sql } from 'kysely'
import { describe, expect, test, vi } from 'vitest'
import { type Database, compilingDb } from '../support/compiling-db.js'
import { queryRefusal } from '../support/query-refusal.js'
import { ImmediatePlugin, RiderPlugin, SafeNullPlugin, SerializingPlugin } from '../support/value-plugins.js'

const { query } = pawl<Database>()
const db = compilingDb()
type Ride = { rider: string; amount: number }
type Id = { id: string }

describe('a query', () => {
  test('is compiled once, with the same text and values as a plain one', () => {
    const define = vi.fn((from: Pick<Kysely<Database>, 'insertInto'>, given: Given<Ride>) =>
      from
        .insertInto('rides')
        .values({ rider: given.rider, amount: given.amount, charge_id: 'none' })
        .returning('id'),
    )
    const insertRide = query(define)
    expect(define).not.toHaveBeenCalled()
    const first = insertRide(db, { rider: 'a', amount: 1 }).compile()
    const times = define.mock.calls.length
    const second = insertRide(db, { rider: 'b', amount: 2 }).compile()
    expect(define).toHaveBeenCalledTimes(times)
    const plain = db
      .insertInto('rides')
      .values({ rider: 'b', amount: 2, charge_id: 'none' })
      .returning('id')
      .compile()
    expect([second.sql, second.parameters]).toEqual([plain.sql, plain.parameters])
    expect(first.parameters).toEqual(['a', 1, 'none'])
  })

  test('is compiled for each list of plugins, and each Kysely', () => {
    const find = query((from, given: Given<Id>) =>
      from.selectFrom('rides').select('charge_id').where('id', '=', given.id),
    )
    const camel = compilingDb([new CamelCasePlugin({ upperCase: true })])
    const texts = [db, camel, db.withSchema('other'), db].map((each) => find(each, { id: '1' }).compile().sql)
    expect(texts).toEqual([
      'select "charge_id" from "rides" where "id" = $1',
      'select "CHARGE_ID" from "RIDES" where "ID" = $1',
      'select "charge_id" from "other"."rides" where "id" = $1',
      'select "charge_id" from "rides" where "id" = $1',
    ])
  })

  test('may use a parameter twice, in sql, in a subquery, in a limit, and as an array', () => {
    const found = query((from, given: Given<{ ids: string[]; many: number; add: number }>) =>
      from
        .with('some', (cte) => cte.selectFrom('rides').selectAll().where('amount', '>', given.add))
        .selectFrom('some')
        .select((eb) => ['id', sql<number>`${given.add}::integer + 1`.as('sum'), eb.val(given.add).as('add')])
        .where('id', '=', ({ fn }) => fn.any(given.ids))
        .where((eb) => eb.between(eb.fn.coalesce('amount', given.add), given.add, given.many))
        .limit(given.many),
    )
    const { sql: text, parameters } = found(db, { ids: ['1', '2'], many: 3, add: 4 }).compile()
    expect(text).toBe(
      'with "some" as (select * from "rides" where "amount" > $1) select "id", $2::integer + 1 as "sum", $3 as "add" ' +
        'from "some" where "id" = any($4) and coalesce("amount", $5) between $6 and $7 limit $8',
    )
    expect(parameters).toEqual([4, 4, 4, ['1', '2'], 4, 4, 3, 3])
  })

  test('may be one that sql has written', () => {
    const raw = query((_, given: Given<{ n: number }>) => sql<{ n: number }>`SELECT ${given.n}::integer AS n`)
    expect(raw(db, { n: 5 }).compile()).toMatchObject({ sql: 'SELECT $1::integer AS n', parameters: [5] })
  })

  test('may bring plugins of its own, for its text and its rows', async () => {
    const rows = { rows: [{ CHARGE_ID: 'ch' }] }
    const answering = compilingDb()
    const executor = answering.getExecutor()
    const connected = executor.withConnectionProvider({
      provideConnection: (consumer) =>
        consumer({ executeQuery: async () => rows as QueryResult<never>, streamQuery: () => null as never }),
    })
    vi.spyOn(answering, 'getExecutor').mockReturnValue(connected)
    const find = query((from) =>
      from
        .withPlugin(new CamelCasePlugin({ upperCase: true }))
        .selectFrom('rides')
        .select('charge_id'),
    )
    expect(find(answering).compile().sql).toBe('select "CHARGE_ID" from "RIDES"')
    expect(await find(answering).execute()).toEqual([{ chargeId: 'ch' }])
  })

  test('can be logged, without values and without placeholders', async () => {
    const find = query((from, given: Given<Id>) =>
      from.selectFrom('rides').selectAll().where('id', '=', given.id),
    )
    const error = await find(db, { id: 'secret' })
      .executeTakeFirstOrThrow()
      .catch((thrown: unknown) => thrown)
    const text = `${inspect(error, { depth: 20 })}${JSON.stringify(error)}`
    expect(text).toContain('given.id')
    expect(text).not.toContain('secret')
    await expect(
      find(db, { id: '1' }).executeTakeFirstOrThrow(() => new Error('there is no such ride')),
    ).rejects.toThrow('there is no such ride')
  })

  test('keeps the values of two uses apart', () => {
    const find = query((from, given: Given<Id>) =>
      from.selectFrom('rides').selectAll().where('id', '=', given.id),
    )
    const uses = ['1', '2', '3'].map((id) => find(db, { id }))
    expect(uses.map((use) => use.compile().parameters)).toEqual([['1'], ['2'], ['3']])
  })
})

describe('a use is refused', () => {
  const insertRide = query((from, given: Given<Ride>) =>
    from.insertInto('rides').values({ rider: given.rider, amount: given.amount }),
  )

  test('if a value is missing', () => {
    expect(queryRefusal(() => insertRide(db, { rider: 'a' } as Ride)).message).toContain(
      "no value for 'amount'",
    )
    expect(queryRefusal(() => insertRide(db, { rider: 'a', amount: undefined } as never)).message).toContain(
      "'amount'",
    )
  })

  test('if there is a value that is not sent', () => {
    const values = { rider: 'a', amount: 1, charge_id: 'ch' }
    expect(queryRefusal(() => insertRide(db, values)).message).toContain(
      "was given 'charge_id', and does not send it",
    )
  })
})

describe('with a plugin that Kysely does not bring, which may look at values or at anything else, a query', () => {
  test('is compiled at each use, and so is what a plain one is', () => {
    const plugged = compilingDb([new SerializingPlugin()])
    const dated = query((from, given: Given<{ at: Date | null }>) =>
      from.updateTable('rides').set({ at: given.at }),
    )
    const sent = [null, new Date(0), null].map((at) => dated(plugged, { at }).compile().parameters)
    expect(sent).toEqual([[null], ['1970-01-01T00:00:00.000Z'], [null]])
    expect(dated(db, { at: new Date(0) }).compile().parameters).toEqual([new Date(0)])
  })

  test('has another text where the plugin writes another', () => {
    const find = query((from, given: Given<{ charge: string | null }>) =>
      from.selectFrom('rides').select('id').where('charge_id', '=', given.charge),
    )
    const plugged = compilingDb([new SafeNullPlugin()])
    const texts = ['ch', null, 'ch'].map((charge) => find(plugged, { charge }).compile().sql)
    expect(texts).toEqual([
      'select "id" from "rides" where "charge_id" = $1',
      'select "id" from "rides" where "charge_id" = null',
      'select "id" from "rides" where "charge_id" = $1',
    ])
    const immediate = compilingDb([new ImmediatePlugin()])
    expect(find(immediate, { charge: 'ch' }).compile()).toMatchObject({
      sql: `select "id" from "rides" where "charge_id" = 'ch'`,
      parameters: [],
    })
  })

  test('has the value that the plugin adds to this use, whatever it added to others', () => {
    let tenant = ''
    const find = query((from, given: Given<Id>) =>
      from.selectFrom('rides').select('id').where('id', '=', given.id),
    )
    const uses = (plugged: Kysely<Database>) =>
      ['a', 'b', 'a'].map((each) => {
        tenant = each
        return find(plugged, { id: '1' }).compile().parameters
      })
    const wanted = [
      ['1', 'a'],
      ['1', 'b'],
      ['1', 'a'],
    ]
    expect(uses(compilingDb([new RiderPlugin(() => tenant)]))).toEqual(wanted)
    expect(uses(compilingDb([new CamelCasePlugin(), new RiderPlugin(() => tenant)]))).toEqual(wanted)
    expect(uses(db.withPlugin(new RiderPlugin(() => tenant)))).toEqual(wanted)
  })

  test('has it also where the definition brings the plugin, or extends one of Kysely', () => {
    let tenant = ''
    class TenantCase extends CamelCasePlugin {
      readonly #rider = new RiderPlugin(() => tenant)
      override transformQuery(args: Parameters<CamelCasePlugin['transformQuery']>[0]) {
        return this.#rider.transformQuery({ ...args, node: super.transformQuery(args) })
      }
    }
    for (const plugin of [new RiderPlugin(() => tenant), new TenantCase()]) {
      const find = query((from, given: Given<Id>) =>
        from.withPlugin(plugin).selectFrom('rides').select('id').where('id', '=', given.id),
      )
      const sent = ['a', 'b'].map((each) => {
        tenant = each
        return find(db, { id: '1' }).compile().parameters
      })
      expect(sent).toEqual([
        ['1', 'a'],
        ['1', 'b'],
      ])
    }
  })

  test('is refused as before if a value is missing, or is not sent', () => {
    const find = query((from, given: Given<Id>) => from.selectFrom('rides').where('id', '=', given.id))
    const plugged = compilingDb([new SerializingPlugin()])
    expect(queryRefusal(() => find(plugged, {} as Id)).message).toContain("no value for 'id'")
    expect(queryRefusal(() => find(plugged, { id: '1', of: 2 } as Id)).message).toContain("was given 'of'")
  })
})
