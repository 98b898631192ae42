import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createOperator, type KeptBecause } from '@pawl/core'
import { expect, onTestFinished, test } from 'vitest'
import { because, dump, fillScope } from '../erase/erased-scope.js'
import { TestDatabase } from '../support/test-database.js'

const page = await readFile(new URL('../../docs/privacy.md', import.meta.url), 'utf8')

/** The rows of a table of the page, by cells. */
const tableRows = (pattern: RegExp): string[][] =>
  page
    .split('\n')
    .filter((line) => pattern.test(line))
    .map((line) =>
      line
        .split('|')
        .map((cell) => cell.trim().replaceAll('`', ''))
        .slice(1, -1),
    )

/** The columns of each table. */
const byTable = (rows: readonly (readonly [string, string])[]) =>
  Object.fromEntries(
    [...new Set(rows.map(([table]) => table))]
      .toSorted()
      .map((table) => [table, rows.filter(([of]) => of === table).map(([, column]) => column)]),
  )

test('the page has every column of every table, in their order, and no other', async () => {
  const database = await TestDatabase.createPlain()
  onTestFinished(() => database.drop())
  const columns = await database.rows<{ table_name: string; column_name: string }>(
    `SELECT c.table_name, c.column_name FROM information_schema.columns AS c
       JOIN information_schema.tables AS t USING (table_schema, table_name)
      WHERE c.table_schema = $1 AND t.table_type = 'BASE TABLE' ORDER BY c.table_name, c.ordinal_position`,
    [database.schema],
  )
  const told = tableRows(/^\| `\w+` +\| `\w+` +\| (?:personal|pseudonymous|no) /)
  expect(byTable(told.map(([table = '', column = '']) => [table, column] as const))).toEqual(
    byTable(columns.map(({ table_name, column_name }) => [table_name, column_name] as const)),
  )
})

test('the page has every reason for which something is kept', () => {
  const reasons = Object.keys({
    running: true,
    stuck: true,
    recent_effect: true,
    undelivered: true,
    referenced: true,
    locked: true,
  } satisfies Record<KeptBecause, true>)
  expect(tableRows(/^ *\| `[a-z_]+` +\| [^|]+\| [^|]+\|$/).map(([why]) => why)).toEqual(['why', ...reasons])
})

test('the rights on the page are enough to erase, and no more than that', async () => {
  const database = await TestDatabase.create()
  const role = `rides_privacy_${randomUUID().replaceAll('-', '').slice(0, 12)}`
  await database.rows(`CREATE ROLE ${role}`)
  onTestFinished(async () => {
    await database.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
    await database.drop()
  })
  const [, grants = ''] = /\*\*Rights\.\*\*[^]*?```sql\n([^]*?)```/.exec(page) ?? []
  await database.rows(
    grants.replaceAll('rides_privacy', role).replaceAll('SCHEMA pawl ', `SCHEMA ${database.schema} `),
  )
  await fillScope(database, 'rider-7', 'key-7')
  const operator = createOperator({
    pool: database.pool({ options: `-c role=${role}` }),
    schema: database.schema,
  })
  expect(await operator.erase({ scope: 'rider-7', ...because })).toMatchObject({ complete: true })
  expect(await dump(database)).not.toContain('rider-7')
})
