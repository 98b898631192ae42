import { type BoundQuery, type Given, pawl } from '@pawl/core'
import {
  type DeleteResult,
  type Generated,
  type InsertResult,
  type Kysely,
  sql,
  type Transaction,
  type UpdateResult,
} from 'kysely'
import { describe, expectTypeOf, test } from 'vitest'

// The compiler does the work here: a mistake fails the build before this runs.

interface Database {
  rides: {
    id: Generated<string>
    rider: string
    amount: number
    state: 'open' | 'closed'
    charge_id: string | null
    is_paid: boolean
    at: Date
    tags: string[]
    bytes: Buffer
  }
}

const { query } = pawl<Database>()

/** The row of a query. */
type RowOf<Q> = Q extends (...given: never[]) => BoundQuery<infer Row> ? Row : never

describe('a query that is compiled once', () => {
  test('is called with a Kysely or a transaction, and the values of its parameters', () => {
    const insertRide = query((db, given: Given<{ rider: string; amount: number; charge: string | null }>) =>
      db
        .insertInto('rides')
        .values({
          rider: given.rider,
          amount: given.amount,
          charge_id: given.charge,
          state: 'open',
          is_paid: false,
          at: sql`now()`,
          tags: sql`'{}'`,
          bytes: sql`''`,
        })
        .returning('id'),
    )
    expectTypeOf(insertRide).parameter(0).toEqualTypeOf<Kysely<Database>>()
    expectTypeOf<Transaction<Database>>().toExtend<Parameters<typeof insertRide>[0]>()
    expectTypeOf(insertRide)
      .parameter(1)
      .toEqualTypeOf<Readonly<{ rider: string; amount: number; charge: string | null }>>()
    expectTypeOf<RowOf<typeof insertRide>>().toEqualTypeOf<{ id: string }>()
  })

  test('takes no values if it has no parameters', () => {
    const all = query((db) => db.selectFrom('rides').select(['id', 'charge_id']))
    expectTypeOf<Parameters<typeof all>>().toEqualTypeOf<[db: Kysely<Database>]>()
    expectTypeOf<RowOf<typeof all>>().toEqualTypeOf<{ id: string; charge_id: string | null }>()
  })

  test('has the result of what Kysely would execute', () => {
    const id = query((db, given: Given<{ id: string }>) =>
      db.deleteFrom('rides').where('id', '=', given.id).returning('amount'),
    )
    expectTypeOf<RowOf<typeof id>>().toEqualTypeOf<{ amount: number }>()
    const update = query((db, given: Given<{ id: string; to: 'open' | 'closed' }>) =>
      db.updateTable('rides').set({ state: given.to }).where('id', '=', given.id),
    )
    expectTypeOf<RowOf<typeof update>>().toEqualTypeOf<UpdateResult>()
    const remove = query((db, given: Given<{ ids: string[] }>) =>
      db.deleteFrom('rides').where('id', '=', ({ fn }) => fn.any(given.ids)),
    )
    expectTypeOf<RowOf<typeof remove>>().toEqualTypeOf<DeleteResult>()
    const copy = query((db, given: Given<{ state: 'open' }>) =>
      db
        .insertInto('rides')
        .columns(['rider', 'amount'])
        .expression((eb) =>
          eb.selectFrom('rides').select(['rider', 'amount']).where('state', '=', given.state),
        ),
    )
    expectTypeOf<RowOf<typeof copy>>().toEqualTypeOf<InsertResult>()
    const raw = query(
      (_, given: Given<{ n: number }>) => sql<{ next: number }>`SELECT ${given.n} + 1 AS next`,
    )
    expectTypeOf<RowOf<typeof raw>>().toEqualTypeOf<{ next: number }>()
  })

  test('may have no row, unless it always has a result', () => {
    expectTypeOf<BoundQuery<{ id: string }>['executeTakeFirst']>().returns.resolves.toEqualTypeOf<
      { id: string } | undefined
    >()
    expectTypeOf<
      BoundQuery<UpdateResult>['executeTakeFirst']
    >().returns.resolves.toEqualTypeOf<UpdateResult>()
    expectTypeOf<BoundQuery<{ id: string }>['executeTakeFirstOrThrow']>().returns.resolves.toEqualTypeOf<{
      id: string
    }>()
    expectTypeOf<BoundQuery<{ id: string }>['execute']>().returns.resolves.toEqualTypeOf<{ id: string }[]>()
  })

  test('takes parameters of any type wherever Kysely takes a value', () => {
    const found = query(
      (
        db,
        given: Given<{
          paid: boolean
          from: Date
          tags: string[]
          bytes: Buffer
          add: number
          many: number
          charge: string | null
        }>,
      ) =>
        db
          .selectFrom('rides')
          .select((eb) => ['id', eb('amount', '+', given.add).as('sum'), eb.val(given.bytes).as('bytes')])
          .where('is_paid', '=', given.paid)
          .where('at', '>=', given.from)
          .where('tags', '=', sql<string[]>`${given.tags}`)
          .where('charge_id', 'is not distinct from', given.charge)
          .limit(given.many),
    )
    expectTypeOf<RowOf<typeof found>>().toEqualTypeOf<{ id: string; sum: number; bytes: Buffer }>()
  })
})
