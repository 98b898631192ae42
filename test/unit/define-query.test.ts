import { randomUUID } from 'node:crypto'
import { inspect } from 'node:util'
import { type Given, pawl, type PawlError } from '@pawl/core'
import {
  CamelCasePlugin,
  DummyDriver,
  type Generated,
  Kysely,
  type KyselyPlugin,
  OperationNodeTransformer,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  sql,
  type ValueNode,
} from 'kysely'
import { describe, expect, test, vi } from 'vitest'

interface Database {
  rides: { id: Generated<string>; rider: string; amount: number; charge_id: string | null; at: Date | null }
}

const { query } = pawl<Database>()

/** A Kysely that compiles for PostgreSQL, and answers nothing. */
function openDb(plugins: KyselyPlugin[] = []): Kysely<Database> {
  return new Kysely<Database>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    plugins,
  })
}

const db = openDb()
type Ride = { rider: string; amount: number }
type Id = { id: string }
type Charge = { charge: string | null }

/** The error that a use throws. */
function refusal(use: () => unknown): PawlError {
  try {
    use()
  } catch (error) {
    return error as PawlError
  }
  throw new Error('it was not refused')
}

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
    const camel = openDb([new CamelCasePlugin({ upperCase: true })])
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
    const answering = openDb()
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
      const error = refusal(() => reading(db, { id: '1' }))
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
    const error = refusal(() => use(db, { charge: 'ch' }))
    expect(error).toMatchObject({ code: 'PAWL_INVALID_QUERY' })
    expect(error.message).toContain("depends on its parameter 'charge'")
  })

  test('that only decides by a parameter', () => {
    const flagged = query((from, g: Given<{ all: boolean }>) => {
      const rides = from.selectFrom('rides').selectAll()
      return g.all ? rides : rides.limit(1)
    })
    expect(refusal(() => flagged(db, { all: true })).message).toMatch(/parameter 'all'/)
  })

  test('that asks for a parameter and does not send it', () => {
    const ignoring = query((from, g: Given<Id>) => {
      void g.id
      return from.selectFrom('rides').selectAll()
    })
    expect(refusal(() => ignoring(db, { id: '1' })).message).toContain(
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
    expect(refusal(() => among(db, { ids: ['1'] })).message).toContain('fn.any(given.ids)')
  })

  test('that lists its parameters', () => {
    const spread = query((from, g: Given<Ride>) => from.insertInto('rides').values({ ...g }))
    const whole = query((from, g: Given<Ride>) => from.insertInto('rides').values(g))
    const rest = query((from, { rider, ...others }: Given<Ride>) =>
      from.insertInto('rides').values({ rider, ...others }),
    )
    for (const use of [spread, whole, rest])
      expect(refusal(() => use(db, { rider: 'a', amount: 1 })).message).toContain('Name each')
  })

  test('that contains a value which would be shared, or is another one each time', () => {
    const dated = query((from) => from.updateTable('rides').set({ at: new Date() }))
    expect(refusal(() => dated(db)).message).toContain('contains a Date that all its uses would share')
    const random = query((from) => from.updateTable('rides').set({ charge_id: randomUUID() }))
    expect(refusal(() => random(db)).message).toContain('another one each time')
  })

  test('with a plugin that writes values into the SQL', () => {
    const find = query((from, given: Given<Id>) =>
      from.selectFrom('rides').selectAll().where('id', '=', given.id),
    )
    expect(find(db, { id: '1' }).compile().parameters).toEqual(['1'])
    const immediate = openDb([new ImmediatePlugin()])
    expect(refusal(() => find(immediate, { id: '1' })).message).toContain("read its parameter 'id'")
  })

  test('that executes its query, or returns none', async () => {
    const executed = query(((from: Kysely<Database>) =>
      from.selectFrom('rides').selectAll().execute()) as never)
    const nothing = query((() => undefined) as never)
    for (const use of [executed, nothing])
      expect(refusal(() => use(db)).message).toContain('has to return a query of Kysely')
  })
})

describe('a use is refused', () => {
  const insertRide = query((from, given: Given<Ride>) =>
    from.insertInto('rides').values({ rider: given.rider, amount: given.amount }),
  )

  test('if a value is missing', () => {
    expect(refusal(() => insertRide(db, { rider: 'a' } as Ride)).message).toContain("no value for 'amount'")
    expect(refusal(() => insertRide(db, { rider: 'a', amount: undefined } as never)).message).toContain(
      "'amount'",
    )
  })

  test('if there is a value that is not sent', () => {
    const values = { rider: 'a', amount: 1, charge_id: 'ch' }
    expect(refusal(() => insertRide(db, values)).message).toContain(
      "was given 'charge_id', and does not send it",
    )
  })

  test('if a plugin would have changed the query for these values, whenever they come', () => {
    const plugged = openDb([new SerializingPlugin()])
    expect(insertRide(plugged, { rider: 'plain', amount: 1 }).compile().parameters).toEqual(['plain', 1])
    const dated = query((from, given: Given<{ at: Date | null }>) =>
      from.updateTable('rides').set({ at: given.at }),
    )
    expect(dated(plugged, { at: null }).compile().parameters).toEqual([null])
    expect(refusal(() => dated(plugged, { at: new Date() })).message).toContain('A plugin changes a query')
    expect(dated(plugged, { at: null }).compile().parameters).toEqual([null])
    expect(dated(db, { at: new Date(0) }).compile().parameters).toEqual([new Date(0)])
  })
})

test('a plugin that treats null in its own way forbids null only', () => {
  const find = query((from, given: Given<Charge>) =>
    from.selectFrom('rides').selectAll().where('charge_id', '=', given.charge),
  )
  const plugged = openDb([new SafeNullPlugin()])
  expect(find(plugged, { charge: 'ch' }).compile().parameters).toEqual(['ch'])
  expect(refusal(() => find(plugged, { charge: null })).message).toContain('A plugin changes a query')
  expect(find(plugged, { charge: 'ch' }).compile().parameters).toEqual(['ch'])
})

class ValuePlugin implements KyselyPlugin {
  readonly #transformer: OperationNodeTransformer

  constructor(change: (node: ValueNode) => ValueNode) {
    this.#transformer = new (class extends OperationNodeTransformer {
      protected override transformValue(node: ValueNode): ValueNode {
        return change(node)
      }
    })()
  }

  transformQuery: KyselyPlugin['transformQuery'] = ({ node, queryId }) =>
    this.#transformer.transformNode(node, queryId)

  transformResult: KyselyPlugin['transformResult'] = async ({ result }) => result
}

/** Such as plugins that turn dates into texts. */
class SerializingPlugin extends ValuePlugin {
  constructor() {
    super((node) => (node.value instanceof Date ? { ...node, value: node.value.toISOString() } : node))
  }
}

/** Such as Kysely's SafeNullComparisonPlugin. */
class SafeNullPlugin extends ValuePlugin {
  constructor() {
    super((node) => (node.value === null ? { ...node, immediate: true } : node))
  }
}

/** Such as Kysely's ImmediateValuePlugin. */
class ImmediatePlugin extends ValuePlugin {
  constructor() {
    super((node) => ({ ...node, immediate: true }))
  }
}
