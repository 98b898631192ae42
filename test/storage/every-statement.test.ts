import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { afterAll, describe, expect, test, vi } from 'vitest'
import type * as TablesModule from '../../packages/core/src/storage/tables.js'
import { Shadows } from '../support/shadows.js'
import { TestDatabase } from '../support/test-database.js'

interface Defined {
  readonly name: string
  readonly write: (tables: unknown) => string
  /** The text where the tables are distributed, if it is another one. */
  readonly overServers: ((tables: unknown) => string) | undefined
}

/** Every statement of the framework, as it is written in its file. */
const { defined } = vi.hoisted(() => ({ defined: [] as Defined[] }))
vi.mock('../../packages/core/src/storage/statement.ts', async (importOriginal) => {
  const original = await importOriginal<{ defineStatement: (...defining: unknown[]) => unknown }>()
  const defineStatement = (name: string, write: Defined['write'], overServers?: Defined['write']) => {
    defined.push({ name, write, overServers })
    return original.defineStatement(name, write, overServers)
  }
  return { ...original, defineStatement }
})

const STORAGE = fileURLToPath(new URL('../../packages/core/src/storage', import.meta.url))
const definingFiles = readdirSync(STORAGE, { recursive: true, withFileTypes: true })
  .map(({ parentPath, name }) => join(parentPath, name))
  .filter((path) => path.endsWith('.ts') && /[=:] defineStatement\(/.test(readFileSync(path, 'utf8')))
for (const path of definingFiles) await import(path)
const { tablesIn } = (await import(`${STORAGE}/tables.ts`)) as typeof TablesModule
const { qualified } = (await import(`${STORAGE}/qualified.ts`)) as { qualified: (sql: string) => string }

/** Where the tables are distributed, others are sent in their place: they lock rows of all scopes, or act on them. */
const ONE_SERVER_ONLY = [
  'claim_jobs',
  'find_due_by_scope',
  'find_unattended_keys',
  'forget_atomic_keys',
  'reap_effects',
  'reap_keys',
  'requeue_dead_jobs',
  'requeue_these_jobs',
]

/** Those others. */
const MANY_SERVERS_ONLY = [
  'delete_effects',
  'find_dead_job_names',
  'find_due_jobs',
  'find_left_keys',
  'find_old_effects',
  'find_unattended_of_version',
  'forget_left_keys',
  'note_requeue',
  'requeue_named_jobs',
]

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

/** They name catalogs and functions of Citus, which PostgreSQL alone does not have. `test/citus` executes them. */
const OF_CITUS = ['read_shards', 'find_shards', 'find_placements', 'ask_server']

const tables = tablesIn(database.schema, 'test')
const distributed = tablesIn(database.schema, 'test')
distributed.spread.learn('over_servers')
/** Both texts of each: of tables on one server, and of tables that are distributed. */
const statements = defined
  .filter(({ name }) => !OF_CITUS.includes(name))
  .flatMap(({ name, write, overServers = write }, index) => {
    const ofOne = MANY_SERVERS_ONLY.includes(name) ? null : write(tables)
    const ofMany = ONE_SERVER_ONLY.includes(name) ? null : overServers(distributed)
    return [
      ...(ofOne === null ? [] : [{ name: `${name} (${index})`, text: ofOne }]),
      ...(ofMany === null || ofMany === ofOne
        ? []
        : [{ name: `${name} (${index}), distributed`, text: ofMany }]),
    ]
  })
const found = (client: pg.ClientBase, text: string) => shadows.foundIn(client, text)

test('there are shadows of all kinds, and statements of all files', async () => {
  const { operators, functions, aggregates, types, catalogs } = await shadows.count()
  expect(operators).toBeGreaterThan(800)
  expect(functions).toBeGreaterThan(800)
  expect(aggregates).toBeGreaterThan(20)
  expect(types).toBeGreaterThan(10)
  expect(catalogs).toBeGreaterThan(5)
  expect(definingFiles.length).toBeGreaterThan(30)
  expect(statements.length).toBeGreaterThanOrEqual(definingFiles.length)
})

describe.each(statements)('$name', ({ text }) => {
  test('as it is written would call shadows that come before pg_catalog', async () => {
    // Or PostgreSQL cannot choose among so many.
    const called = await found(first, text).catch(({ code }: pg.DatabaseError) => [code])
    expect(called).not.toHaveLength(0)
  })

  test('as it is sent calls no shadow, wherever the search path names them', async () => {
    expect(await found(first, qualified(text))).toEqual([])
    expect(await found(behindCatalog, qualified(text))).toEqual([])
  })

  test('as it is sent means what is written', async () => {
    expect(await shadows.meaningOf(ordinary, qualified(text))).toBe(await shadows.meaningOf(ordinary, text))
  })
})

test('as they are written, times would be computed by a shadow of exactly their types', async () => {
  const { text = '' } = statements.find(({ name }) => name.startsWith('find_key_by_id')) ?? {}
  expect(await found(behindCatalog, text)).toEqual([`operator ${shadows.schema}.*(numeric,integer)`])
})

/** Statements of a request's own way, from its reservation to its answer. Each of them finds its row in one place. */
const ON_THE_WAY = [
  'insert_key',
  'find_key',
  'take_over_key',
  'mark_unheld_stuck',
  'advance_key',
  'finish_key',
  'skip_phase',
  'declare_call',
  'renew_leases',
  'raise_fence',
  'give_back_key',
  'mark_stuck',
  'keep_late_end',
  'forget_key',
  'insert_effect',
  'insert_staged_job',
]

// What tables that are divided by scope need, on one server or on many. See docs/internals.md.
describe('every statement that writes', () => {
  const writing = statements.filter(({ text }) => /\b(?:INSERT INTO|UPDATE|DELETE FROM) "/.test(text))

  test.each(writing)('$name calls no volatile function', async ({ text }) => {
    const called = [...text.matchAll(/\b([a-z_]+)\(/g)].map(([, name = '']) => name)
    const { rows } = await ordinary.query<{ name: string }>(
      `SELECT DISTINCT proname AS name FROM pg_proc
        WHERE proname = ANY ($1) AND provolatile = 'v' AND pronamespace = 'pg_catalog'::regnamespace`,
      [called],
    )
    expect(rows.map(({ name }) => name)).toEqual([])
  })

  test.each(writing)('$name returns nothing that changes by itself', async ({ text }) => {
    const [, table = '', alias = ''] =
      /(?:INSERT INTO|UPDATE|DELETE FROM) ("\w+"\."\w+")(?: AS (\w+))?/.exec(text) ?? []
    for (const expression of returnedBy(text)) {
      // An index takes only what is immutable. PostgreSQL checks that before anything else about it.
      const ofTable = expression.replaceAll(new RegExp(`\\b${alias}\\.`, 'g'), '')
      const refused = await ordinary.query(`CREATE INDEX ON ${table} ((${ofTable}))`).catch(stateOf)
      await ordinary.query('ROLLBACK')
      expect([expression, refused]).not.toEqual([expression, '42P17'])
    }
  })

  // Citus evaluates such a function before it knows the row.
  test.each(writing.filter(({ name }) => isSentToMany(name)))(
    '$name sets nothing by the clock and the row',
    ({ text }) => {
      for (const [, set = ''] of text.matchAll(/\bSET\b([^]*?)\b(?:FROM|WHERE|RETURNING)\b/g))
        expect(set).not.toMatch(/_timestamp\(\)\s*[-+]\s*(?:\w+\(|\()*(?:k|j|e|each|free|h)\./)
    },
  )

  // Citus accepts nothing else there.
  test.each(writing.filter(({ name, text }) => isSentToMany(name) && text.includes('DO UPDATE')))(
    '$name decides by what is immutable what becomes of a row that is there',
    async ({ text }) => {
      const [, table = ''] = /INSERT INTO ("\w+"\."\w+") AS u\b/.exec(text) ?? []
      const expressions = updatedOnConflict(text)
      expect(expressions).not.toHaveLength(0)
      for (const expression of expressions) {
        const ofTable = expression.replaceAll(/\b(?:u|excluded)\./g, '').replaceAll(/\$\d+/g, '1')
        const refused = await ordinary.query(`CREATE INDEX ON ${table} ((${ofTable}))`).catch(stateOf)
        await ordinary.query('ROLLBACK')
        expect([expression, refused]).not.toEqual([expression, '42P17'])
        expect(expression).not.toContain('_timestamp()')
      }
    },
  )

  test.each(writing)('$name reads no clock where it may not be evaluated', ({ text }) => {
    for (const [conditional] of text.matchAll(/\bCASE\b[^]*?\bEND\b|coalesce\([^)]*\)/g)) {
      expect(conditional).not.toContain('_timestamp()')
    }
  })
})

const isSentToMany = (name: string): boolean => !ONE_SERVER_ONLY.includes(name.replace(/ \(.*$/, ''))

/** What columns are set to after ON CONFLICT DO UPDATE, and the condition. */
function updatedOnConflict(text: string): string[] {
  return [...text.matchAll(/\bDO UPDATE\s+SET\b/g)].flatMap(({ 0: begin, index }) => {
    const rest = text.slice(index + begin.length)
    const expressions: string[] = []
    let [depth, from] = [0, 0]
    // A last end, for a statement that ends there.
    for (const { 0: mark, index: at } of `${rest})`.matchAll(/\bRETURNING\b|\bWHERE\b|[(),]/g)) {
      if (depth === 0 && mark !== '(') {
        expressions.push(rest.slice(from, at).replace(/^\s*\w+ = /, ''))
        from = at + mark.length
      }
      if (mark === '(') depth++
      else if (mark === ')') depth--
      if (depth < 0 || (depth === 0 && mark === 'RETURNING')) break
    }
    return expressions
  })
}

/** The expressions after RETURNING, without columns of other sources, which are no expressions of the table. */
function returnedBy(text: string): string[] {
  return [...text.matchAll(/\bRETURNING\b/g)].flatMap(({ index }) => {
    const expressions = ['']
    let depth = 0
    for (const character of text.slice(index + 'RETURNING'.length)) {
      if (character === '(') depth++
      else if (character === ')') depth--
      if (depth < 0) break
      if (character === ',' && depth === 0) expressions.push('')
      else expressions[expressions.length - 1] += character
    }
    return expressions
      .map((each) => each.trim().replace(/ AS \w+$/, ''))
      .filter((each) => !/^(?:target|granted)\.\w+$/.test(each))
  })
}

const stateOf = ({ code }: pg.DatabaseError): string | undefined => code

test.each(statements)('$name selects something', ({ text }) => {
  expect(text).not.toMatch(/\bSELECT\s+FROM\b/)
})

describe('every statement of the way of a request', () => {
  const ofTheWay = statements.filter(({ name }) => ON_THE_WAY.includes(name.replace(/ \(.*$/, '')))

  test('is one of those that are checked here', () => {
    expect(new Set(ofTheWay.map(({ name }) => name.replace(/ \(.*$/, '')))).toEqual(new Set(ON_THE_WAY))
  })

  test.each(ofTheWay)('$name names scope and key', ({ name, text }) => {
    if (name.startsWith('insert_staged_job')) expect(text).toContain('(id, scope, key_id, seq,')
    else if (name.startsWith('insert_key')) expect(text).toContain('(id, scope, key, pipeline,')
    else if (name.startsWith('insert_effect')) expect(text).toContain('(id, key_id, scope, key,')
    else expect(text).toMatch(/\bscope = .* AND (?:\w+\.)?key = /)
  })
})
