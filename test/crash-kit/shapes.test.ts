import { pawl, type Pipeline, respond } from '@pawl/core'
import { crashKit, type Finding } from '@pawl/crash-kit'
import type { Generated } from 'kysely'
import { expect, test } from 'vitest'
import { whereabouts } from './ride-kit.js'
import { onlyDeep } from '../support/amounts.js'
import { BOUND, guarded } from '../support/guards.js'
import { LAYOUT } from '../support/layout.js'

interface Database {
  accounts: { id: string; balance: number }
  users: { id: Generated<number>; email: string }
  invoices: { id: Generated<number>; user_id: number | null; amount: number }
}

const { pipeline } = pawl<Database>()
type Input = { readonly amount: number; readonly email: string }
type Shaped = Pipeline<Database, Input>

const TABLES = `
  CREATE TABLE accounts (id text PRIMARY KEY, balance integer NOT NULL CHECK (balance >= 0));
  INSERT INTO accounts VALUES ('a-1', 3000);
  CREATE TABLE users (id serial PRIMARY KEY, email text NOT NULL UNIQUE);
  CREATE TABLE invoices (id serial PRIMARY KEY, user_id integer REFERENCES users (id), amount integer NOT NULL)`

/** Resolves to the kit's finding about a pipeline; null if there is none. */
async function findIn(shaped: () => Shaped): Promise<Finding | null> {
  const kit = crashKit({
    pipeline: shaped,
    pool: whereabouts(),
    ...LAYOUT,
    prepare: async ({ pool }) => void (await pool.query(TABLES)),
    request: { scope: 'a-1', input: { amount: 1_000, email: 'a@example.com' }, ...BOUND },
    engine: guarded({}),
  })
  try {
    await kit.exhaustive({ faults: ['crash', 'throw'] })
    await kit.races({ runs: 5, actors: ['client', 'zombie'] })
    return null
  } catch (error) {
    if (error instanceof Error && error.name === 'Finding') return error as Finding
    throw error
  } finally {
    await kit.close()
  }
}

const begin = () => pipeline<Input>({ name: 'shaped', version: 1 })

/** Takes an amount from an account that all requests share. */
const withdrawal = (fee: () => number) =>
  begin()
    .local('noted', async ({ tx, input }) => {
      await tx.insertInto('invoices').values({ amount: input.amount }).execute()
    })
    .local('withdrawn', async ({ tx, input, scope }) => {
      await tx
        .updateTable('accounts')
        .set((eb) => ({ balance: eb('balance', '-', input.amount + fee()) }))
        .where('id', '=', scope)
        .execute()
    })
    .finish(() => respond(200))

/** Two tables with ids of their own, and an e-mail that only one request can have. */
const signUp = () =>
  begin()
    .local('user_created', async ({ tx, input }) => {
      const values = { email: input.email }
      const user = await tx.insertInto('users').values(values).returning('id').executeTakeFirstOrThrow()
      return { userId: user.id }
    })
    .local('invoiced', async ({ tx, state, input }) => {
      const values = { user_id: state.userId, amount: input.amount }
      const invoice = await tx.insertInto('invoices').values(values).returning('id').executeTakeFirstOrThrow()
      return { invoiceId: invoice.id }
    })
    .finish(({ state }) => respond(201, { user: state.userId, invoice: state.invoiceId }))

onlyDeep(() => {
  test('a balance that every request lowers, a unique e-mail, and ids of two sequences are not findings', async () => {
    expect((await findIn(() => withdrawal(() => 0)))?.message).toBeUndefined()
    expect((await findIn(signUp))?.message).toBeUndefined()
  })
})

test('money that is wrong after a crash is found in rows that are updated', async () => {
  const finding = await findIn(() => {
    // The first phase sets it and keeps it in memory, where a recovery does not find it.
    let fee = 0
    return begin()
      .local('fee_set', () => {
        fee = 5
      })
      .local('withdrawn', async ({ tx, input, scope }) => {
        await tx
          .updateTable('accounts')
          .set((eb) => ({ balance: eb('balance', '-', input.amount + fee) }))
          .where('id', '=', scope)
          .execute()
      })
      .finish(() => respond(200))
  })
  expect(finding?.violations[0]).toMatchObject({ rule: 'oracle' })
  expect(finding?.message).toContain('balance')
})

test('a value that one request keeps and another uses is found, although each engine has its own pipeline', async () => {
  const finding = await findIn(() => {
    let kept: number | undefined
    return begin()
      .local('user_created', async ({ tx, input, keyId }) => {
        const values = { email: `${keyId}${input.email}` }
        const user = await tx.insertInto('users').values(values).returning('id').executeTakeFirstOrThrow()
        return { userId: user.id }
      })
      .local('invoiced', async ({ tx, state, input }) => {
        kept ??= state.userId
        await tx.insertInto('invoices').values({ user_id: kept, amount: input.amount }).execute()
      })
      .finish(({ state }) => respond(201, { user: state.userId }))
  })
  expect(finding?.title).toContain('another request')
})
