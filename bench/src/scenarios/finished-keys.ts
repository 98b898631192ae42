import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { CREATED, RIDER_DIGITS } from '../business.js'
import { type PawlVariant, schemaOfVariant } from '../contenders/registry.js'
import type { Entrant } from '../run/entrant.js'
import { newKeys } from './keyed-load.js'
import { putBackIndexes, takeIndexesAway } from './set-indexes-aside.js'

/** Rows of one statement: its transaction stays short. */
const BATCH_ROWS = 50_000

/** Statements at a time: the cores of a small machine. */
const CONNECTIONS = 2

/** From here on, an index is made once at the end, and not row by row. */
const MANY_ROWS = 50_000

/** A span of time, in hours before now. */
interface HoursAgo {
  readonly oldest: number
  readonly newest: number
}

/** Keys are kept for a day, so these are all of them and one hour more: the oldest 25th has expired. */
export const A_DAY_AND_AN_HOUR: HoursAgo = { oldest: 25, newest: 0 }
export const ALL_EXPIRED: HoursAgo = { oldest: 49, newest: 25 }

interface Filling {
  readonly databaseUrl: string
  readonly variant: PawlVariant
  readonly count: number
  readonly finishedHoursAgo: HoursAgo
}

const TABLES = ['idempotency_keys', 'effects'] as const

/** These columns differ from copy to copy. Everything else is as Pawl wrote it. */
const OWN_VALUES: Readonly<Record<string, string>> = {
  id: 'CASE WHEN $6::boolean THEN own.id ELSE gen_random_uuid() END',
  key_id: 'own.id',
  scope: 'own.scope',
  key: 'own.key',
  holder: 'gen_random_uuid()',
  provider_key: `overlay(model.provider_key PLACING own.key FROM greatest(1, length(model.provider_key) - 35))`,
  created_at: 'model.created_at - own.ago',
  updated_at: 'model.updated_at - own.ago',
  expires_at: 'model.expires_at - own.ago',
}

/**
 * Fills Pawl's table with finished keys, and its effects with theirs: copies of a request that Pawl has run, so that they
 * are as large as real ones whatever the columns are. They lie in the table in the order in which they were finished, as
 * real ones do, and any of them can be replayed.
 */
export async function fillFinishedKeys(entrant: Entrant, filling: Filling): Promise<void> {
  const { databaseUrl, variant, count } = filling
  const [key = ''] = newKeys(1)
  await entrant.each({ keys: [key], clients: 1, expectedStatus: CREATED })
  const schema = schemaOfVariant(variant)
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: CONNECTIONS,
    // Sorting for an index in memory; one process for each, since the tables are done at the same time.
    options: '-c maintenance_work_mem=1GB -c max_parallel_maintenance_workers=0 -c synchronous_commit=off',
  })
  try {
    for (const table of TABLES) await keepModel(pool, schema, table, key)
    const aside = await Promise.all(
      TABLES.map(async (table) => (count < MANY_ROWS ? [] : takeIndexesAway(pool, schema, table))),
    )
    await insertCopies(pool, schema, filling)
    await Promise.all(
      TABLES.map(async (table, at) => {
        await putBackIndexes(pool, aside[at] ?? [])
        await pool.query(`VACUUM ANALYZE "${schema}"."${table}"`)
        await pool.query(`DROP TABLE "${schema}"."${modelOf(table)}"`)
      }),
    )
  } finally {
    await pool.end()
  }
}

const modelOf = (table: string): string => `model_of_${table}`

/** Puts the row that is copied beside the table: it would be looked for among millions, without an index. */
async function keepModel(pool: pg.Pool, schema: string, table: string, key: string): Promise<void> {
  const columns = `CREATE TABLE "${schema}"."${modelOf(table)}" (LIKE "${schema}"."${table}")`
  await pool.query(columns)
  await pool.query(
    `INSERT INTO "${schema}"."${modelOf(table)}" SELECT * FROM "${schema}"."${table}" WHERE key = $1`,
    [key],
  )
}

async function insertCopies(
  pool: pg.Pool,
  schema: string,
  { count, finishedHoursAgo: { oldest, newest } }: Filling,
): Promise<void> {
  const salt = randomUUID()
  const copies = await Promise.all(TABLES.map((table) => copyStatement(pool, schema, table)))
  const starts = Array.from({ length: Math.ceil(count / BATCH_ROWS) }, (_, at) => at * BATCH_ROWS)
  const batches = starts.flatMap((start) =>
    copies.map((copy, at) => ({
      copy,
      values: [
        start + 1,
        Math.min(start + BATCH_ROWS, count),
        salt,
        oldest,
        (oldest - newest) / count,
        at === 0,
      ],
    })),
  )
  await Promise.all(batches.map(({ copy, values }) => pool.query(copy, values)))
}

/**
 * Copies the row of a key once for each number in a range. Names and ids come from the number, so that the effect of a copied
 * key has its names.
 */
async function copyStatement(pool: pg.Pool, schema: string, table: string): Promise<string> {
  const { rows } = await pool.query<{ column_name: string }>(
    `SELECT column_name FROM information_schema.columns
      WHERE table_schema = $1 AND table_name = $2 AND is_generated = 'NEVER' AND is_identity = 'NO'
      ORDER BY ordinal_position`,
    [schema, table],
  )
  const columns = rows.map(({ column_name: name }) => name)
  return `INSERT INTO "${schema}"."${table}" (${columns.map((column) => `"${column}"`).join(', ')})
          SELECT ${columns.map((column) => OWN_VALUES[column] ?? `model."${column}"`).join(', ')}
            FROM "${schema}"."${modelOf(table)}" AS model,
                 (SELECT md5('id' || $3 || n)::uuid AS id, name.key, 'rider-' || left(name.key, ${RIDER_DIGITS}) AS scope,
                         ($4::float8 - n * $5::float8) * interval '1 hour' AS ago
                    FROM generate_series($1::integer, $2::integer) AS n,
                         LATERAL (SELECT md5($3 || n)::uuid::text AS key) AS name) AS own`
}
