import type { TestDatabase } from './test-database.js'

/**
 * What the partitions of a table, and their indexes, are called by whoever knows only the table: by the name of the table or index that
 * they are parts of. Names of anything else stay as they are.
 */
export async function parentNames(database: TestDatabase): Promise<(name: string) => string> {
  const rows = await database.rows<{ part: string; parent: string }>(
    `SELECT c.relname AS part, p.relname AS parent FROM pg_inherits AS i
       JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS p ON p.oid = i.inhparent
      WHERE c.relnamespace = $1::regnamespace`,
    [database.schema],
  )
  const parents = new Map(rows.map(({ part, parent }) => [part, parent]))
  return (name) => parents.get(name) ?? name
}
