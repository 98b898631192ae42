import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { Shadows } from '../support/shadows.js'
import { TestDatabase } from '../support/test-database.js'

interface Defined {
  readonly name: string
  readonly write: (tables: unknown) => string
}

/** Every statement of the framework, as it is written down. */
const { defined } = vi.hoisted(() => ({ defined: [] as Defined[] }))
vi.mock('../../packages/core/src/storage/statement.ts', async (importOriginal) => {
  const original = await importOriginal<{ defineStatement: (...defining: unknown[]) => unknown }>()
  const defineStatement = (name: string, write: Defined['write']) => {
    defined.push({ name, write })
    return original.defineStatement(name, write)
  }
  return { ...original, defineStatement }
})

const STORAGE = fileURLToPath(new URL('../../packages/core/src/storage', import.meta.url))
const fileNames = readdirSync(STORAGE).filter((name) => name.endsWith('-statements.ts'))
for (const name of fileNames) await import(`${STORAGE}/${name}`)
const { tablesIn } = (await import(`${STORAGE}/tables.ts`)) as { tablesIn: (...names: string[]) => unknown }
const { qualified } = (await import(`${STORAGE}/qualified.ts`)) as { qualified: (sql: string) => string }

const database = await TestDatabase.create()
const shadows = await Shadows.plant(database, 'clone')
const first = await database.pool({ max: 1, options: shadows.first }).connect()
const behindCatalog = await database.pool({ max: 1, options: shadows.behindCatalog }).connect()
const ordinary = await database.pool({ max: 1 }).connect()
afterAll(async () => {
  ordinary.release()
  first.release()
  behindCatalog.release()
  await database.admin.query(`DROP SCHEMA ${shadows.schema} CASCADE`)
  await database.drop()
})

const tables = tablesIn(database.schema, 'test')
const statements = defined.map(({ name, write }, index) => ({
  name: `${name} (${index})`,
  text: write(tables),
}))
const found = (client: pg.ClientBase, text: string) => shadows.foundIn(client, text)

test('there are shadows of all kinds, and statements of all files', async () => {
  const { operators, functions, aggregates, types, catalogs } = await shadows.count()
  expect(operators).toBeGreaterThan(800)
  expect(functions).toBeGreaterThan(800)
  expect(aggregates).toBeGreaterThan(20)
  expect(types).toBeGreaterThan(10)
  expect(catalogs).toBeGreaterThan(5)
  expect(statements.length).toBeGreaterThan(fileNames.length * 2)
})

/** It has nothing but a parameter of type json, whose name is a part of the language since PostgreSQL 16. */
const CALLS_NOTHING = /^note_reap /

describe.each(statements)('$name', ({ name, text }) => {
  test.skipIf(CALLS_NOTHING.test(name))(
    'as it is written, it would call shadows that come before pg_catalog',
    async () => {
      // Or PostgreSQL does not know what to make of so many.
      const called = await found(first, text).catch(({ code }: pg.DatabaseError) => [code])
      expect(called).not.toEqual([])
    },
  )

  test('as it is sent, it calls none, wherever the search path names them', async () => {
    expect(await found(first, qualified(text))).toEqual([])
    expect(await found(behindCatalog, qualified(text))).toEqual([])
  })

  test('as it is sent, it means what is written', async () => {
    expect(await shadows.meaningOf(ordinary, qualified(text))).toBe(await shadows.meaningOf(ordinary, text))
  })
})

test('as they are written, times would be reckoned by an operator of exactly their types', async () => {
  const { text = '' } = statements.find(({ name }) => name.startsWith('find_key_by_id')) ?? {}
  expect(await found(behindCatalog, text)).toEqual([`operator ${shadows.schema}.*(numeric,integer)`])
})
