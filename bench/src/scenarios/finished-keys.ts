import pg from 'pg'
import { CREATED } from '../business.js'
import { type PawlVariant, schemaOfVariant } from '../contenders/registry.js'
import type { Entrant } from '../run/entrant.js'
import { newKeys } from './keyed-load.js'

/** Rows of one statement: its transaction stays short. */
const BATCH_ROWS = 50_000

/** Statements at a time: the cores of a small machine. */
const CONNECTIONS = 2

interface Filling {
  readonly databaseUrl: string
  readonly variant: PawlVariant
  readonly count: number
  readonly expiresIn: 'a day' | 'the past'
}

/** These columns differ from copy to copy. Everything else is as Pawl wrote it. */
const OWN_VALUES: Readonly<Record<string, string>> = {
  id: 'gen_random_uuid()',
  key_id: 'gen_random_uuid()',
  key: 'gen_random_uuid()::text',
  holder: 'gen_random_uuid()',
  provider_key: `encode(sha256(gen_random_uuid()::text::bytea), 'hex')`,
  fingerprint: 'sha256(gen_random_uuid()::text::bytea)',
  created_at: 'model.created_at - ago',
  updated_at: 'model.updated_at - ago',
}

const EXPIRES_AT: Readonly<Record<Filling['expiresIn'], string>> = {
  'a day': `model.expires_at - ago + interval '1 day'`,
  'the past': `now() - interval '1 hour' - ago`,
}

/**
 * Fills Pawl's table with finished keys, and its effects with theirs: copies of a request that Pawl has run, so that they
 * are as large as real ones whatever the columns are. Spread over the last day, as they would be.
 */
export async function fillFinishedKeys(entrant: Entrant, filling: Filling): Promise<void> {
  const { databaseUrl, variant, count, expiresIn } = filling
  const [key = ''] = newKeys(1)
  await entrant.each({ keys: [key], clients: 1, expectedStatus: CREATED })
  const schema = schemaOfVariant(variant)
  const pool = new pg.Pool({ connectionString: databaseUrl, max: CONNECTIONS })
  try {
    const tables = ['idempotency_keys', 'effects']
    const copies = await Promise.all(
      tables.map((table) => copyStatement(pool, schema, table, EXPIRES_AT[expiresIn])),
    )
    const batches = Array.from({ length: Math.ceil(count / BATCH_ROWS) }, (_, at) =>
      Math.min(BATCH_ROWS, count - at * BATCH_ROWS),
    )
    await Promise.all(batches.flatMap((rows) => copies.map((copy) => pool.query(copy, [key, rows]))))
    for (const table of tables) await pool.query(`VACUUM ANALYZE "${schema}"."${table}"`)
  } finally {
    await pool.end()
  }
}

/** Copies the row of a key so many times. */
async function copyStatement(
  pool: pg.Pool,
  schema: string,
  table: string,
  expiresAt: string,
): Promise<string> {
  const { rows } = await pool.query<{ column_name: string }>(
    `SELECT column_name FROM information_schema.columns
      WHERE table_schema = $1 AND table_name = $2 AND is_generated = 'NEVER' AND is_identity = 'NO'
      ORDER BY ordinal_position`,
    [schema, table],
  )
  const columns = rows.map(({ column_name: name }) => name)
  const own: Readonly<Record<string, string>> = { ...OWN_VALUES, expires_at: expiresAt }
  return `INSERT INTO "${schema}"."${table}" (${columns.map((column) => `"${column}"`).join(', ')})
          SELECT ${columns.map((column) => own[column] ?? `model."${column}"`).join(', ')}
            FROM "${schema}"."${table}" AS model, generate_series(1, $2::integer),
                 LATERAL (SELECT random() * interval '1 day' AS ago) AS spread
           WHERE model.key = $1`
}
