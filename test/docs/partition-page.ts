import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { TestDatabase } from '../support/test-database.js'

export const page = await readFile(new URL('../../docs/partitioning.md', import.meta.url), 'utf8')

/** The SQL blocks of the page, by the comment that each begins with. */
export const blocks = new Map(
  [...page.matchAll(/^```sql\n-- (.*?)\n(.*?)^```$/gms)].map(
    ([, name = '', sql = '']) => [name, sql] as const,
  ),
)

export function block(name: string): string {
  const sql = blocks.get(name)
  if (sql === undefined) throw new Error(`the page has no SQL block '${name}'`)
  return sql
}

/** A UUIDv7 as clients make them. */
export function uuid7(ms: number): string {
  const time = ms.toString(16).padStart(12, '0')
  const random = randomBytes(10).toString('hex')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-b${random.slice(3, 6)}-${random.slice(6, 18)}`
}

/** Returns the name of the partition that a key is in. */
export async function partitionOf(database: TestDatabase, key: string): Promise<string | undefined> {
  const [row] = await database.rows<{ name: string }>(
    `SELECT relname AS name FROM pawl.idempotency_keys AS k JOIN pg_class AS c ON c.oid = k.tableoid WHERE k.key = $1`,
    [key],
  )
  return row?.name
}

/** Creates the functions of the page in a database whose keys are partitioned. */
export async function createFunctions(database: TestDatabase): Promise<void> {
  await database.rows(block('functions to create days'))
  await database.rows(block('function to drop a day'))
  await database.rows(block('procedure to drop old days'))
}
