import type pg from 'pg'

/**
 * How full the pages of an index are whose entries come in no order, once it has grown entry by entry: about ln 2 of a page.
 * A new index would be fuller, smaller, and would split its pages at the next entries.
 */
const FILLED_PERCENT = 69

/** Indexes by time grow at their end, where PostgreSQL fills pages to 90 %, as it does in a new index. */
const BY_TIME = /\((?:expires_at|created_at)\)/

interface IndexRow {
  readonly drop: string
  readonly create: string
}

/** Drops a table's indexes. Returns the statements that make them again. Millions of rows go in many times faster without. */
export async function takeIndexesAway(pool: pg.Pool, schema: string, table: string): Promise<string[]> {
  const { rows } = await pool.query<IndexRow>(
    `SELECT CASE WHEN c.conname IS NULL THEN format('DROP INDEX %s', i.indexrelid::regclass)
                 ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', i.indrelid::regclass, c.conname) END AS drop,
            -- PostgreSQL writes ONLY where a table has partitions; it would leave them without.
            CASE WHEN c.conname IS NULL THEN replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ')
                 ELSE format('ALTER TABLE %s ADD CONSTRAINT %I %s', i.indrelid::regclass, c.conname,
                             pg_get_constraintdef(c.oid)) END AS create
       FROM pg_index AS i LEFT JOIN pg_constraint AS c ON c.conindid = i.indexrelid
      WHERE i.indrelid = format('%I.%I', $1::text, $2::text)::regclass`,
    [schema, table],
  )
  for (const { drop } of rows) await pool.query(drop)
  return rows.map(({ create }) => (BY_TIME.test(create) ? create : withRoom(create)))
}

export async function putBackIndexes(pool: pg.Pool, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await pool.query(statement)
}

function withRoom(create: string): string {
  const room = `WITH (fillfactor = ${FILLED_PERCENT})`
  return create.includes(' WHERE ') ? create.replace(' WHERE ', ` ${room} WHERE `) : `${create} ${room}`
}
