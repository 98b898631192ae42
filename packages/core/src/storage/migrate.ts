import type { Pool } from 'pg'
import { checkKnownOptions, invalidOption } from '../check-option.js'
import type { Begin } from '../driver/outgoing.js'
import { SessionPool } from '../driver/session-pool.js'
import type { SessionTransaction } from '../driver/session-transaction.js'
import { initial } from './migrations/001-initial.js'
import { operations } from './migrations/002-operations.js'
import { leanChecks } from './migrations/003-lean-checks.js'
import { DEFAULT_SCHEMA, type Tables, tablesIn } from './tables.js'

/**
 * Where the tables go.
 *
 * @example
 * await migrate(pool, { schema: 'idempotency' }) // and the same for createEngine
 */
export interface MigrateOptions {
  /** The schema for the framework's tables. Default `pawl`. */
  readonly schema?: string
}

/** In order, never changed once released: a database remembers how many of them it has. */
const MIGRATIONS: readonly ((tables: Tables) => string)[] = [initial, operations, leanChecks]

/** The version that this code works with. */
export const SCHEMA_VERSION = MIGRATIONS.length

/** Building an index on a large table takes its time; a migration is not a request. */
const MIGRATION_DEADLINE_MS = 10 * 60_000

/**
 * Creates or updates the framework's tables. Repeatable, and safe from many processes at once: they take turns.
 *
 * @example
 * await migrate(pool)
 */
export async function migrate(
  pool: Pool,
  options: MigrateOptions = {},
): Promise<{ readonly applied: number }> {
  const tables = checkOptions('migrate', options)
  if (typeof (pool as Partial<Pool> | undefined)?.connect !== 'function') {
    throw invalidOption(
      { code: 'PAWL_INVALID_OPTION', where: 'migrate' },
      'the first argument',
      pool,
      'a pg.Pool',
    )
  }
  const sessions = new SessionPool(pool, {
    acquireTimeoutMs: MIGRATION_DEADLINE_MS,
    statementDeadlineMs: MIGRATION_DEADLINE_MS,
    lockTimeoutMs: MIGRATION_DEADLINE_MS,
    pipelining: false,
    preparedStatements: false,
    probe: null,
  })
  return sessions.with('migrate', async (session) => {
    const transaction = session.begin(BEGIN)
    try {
      const applied = await applyMissing(transaction, tables)
      await transaction.commit([])
      return { applied }
    } catch (error) {
      await transaction.rollBack()
      throw error
    }
  })
}

/**
 * The SQL that `migrate` runs on an empty database, for people who apply it by other means.
 *
 * @example
 * writeFileSync('001-pawl.sql', migrationSql())
 */
export function migrationSql(options: MigrateOptions = {}): string {
  const tables = checkOptions('migrationSql', options)
  const parts = [`CREATE SCHEMA IF NOT EXISTS "${tables.schema}";`, createHistory(tables)]
  for (const [index, write] of MIGRATIONS.entries()) {
    parts.push(write(tables).trim(), `INSERT INTO ${historyOf(tables)} (version) VALUES (${index + 1});`)
  }
  return `BEGIN;\n${parts.join('\n')}\nCOMMIT;\n`
}

/** READ COMMITTED whatever the database's default: what another process did while this one waited has to be seen. */
const BEGIN: Begin = {
  alone: { name: 'migrate_begin', text: 'BEGIN ISOLATION LEVEL READ COMMITTED' },
  together: [],
}

async function applyMissing(transaction: SessionTransaction, tables: Tables): Promise<number> {
  // A lock of the transaction, not of the session: it holds behind a pooler, and cannot be left behind.
  const lock = `pg_advisory_xact_lock(hashtextextended('pawl.migrate.${tables.schema}', 0))`
  const run = (name: string, text: string) => transaction.run({ statement: { name, text } })
  await run('migrate_lock', `SELECT ${lock}`)
  // Asking first: creating what is there already needs the right to create it all the same.
  if (!(await exists(transaction, 'to_regnamespace', `"${tables.schema}"`))) {
    await run('migrate_schema', `CREATE SCHEMA "${tables.schema}"`)
  }
  if (!(await exists(transaction, 'to_regclass', historyOf(tables)))) {
    await run('migrate_history', createHistory(tables))
  }
  const { rows } = await run(
    'migrate_version',
    `SELECT coalesce(max(version), 0) AS version FROM ${historyOf(tables)}`,
  )
  const version = Number(rows[0]?.['version'])
  for (const [index, write] of MIGRATIONS.entries()) {
    if (index < version) continue
    await run('migrate_step', write(tables))
    await run('migrate_record', `INSERT INTO ${historyOf(tables)} (version) VALUES (${index + 1})`)
  }
  return Math.max(0, MIGRATIONS.length - version)
}

async function exists(
  transaction: SessionTransaction,
  lookUp: 'to_regnamespace' | 'to_regclass',
  name: string,
): Promise<boolean> {
  const text = `SELECT ${lookUp}($1) IS NOT NULL AS found`
  const { rows } = await transaction.run({ statement: { name: 'migrate_look', text }, values: [name] })
  return rows[0]?.['found'] === 't'
}

function checkOptions(where: string, options: MigrateOptions): Tables {
  checkKnownOptions({ code: 'PAWL_INVALID_OPTION', where }, options, ['schema'])
  return tablesIn(options.schema ?? DEFAULT_SCHEMA, where)
}

const historyOf = ({ schema }: Tables): string => `"${schema}"."migrations"`

function createHistory(tables: Tables): string {
  const table = historyOf(tables)
  return `CREATE TABLE IF NOT EXISTS ${table} (
  version    integer PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE ${table} IS 'Which migrations of Pawl this schema has.';
COMMENT ON COLUMN ${table}.version IS 'Number of the migration.';
COMMENT ON COLUMN ${table}.applied_at IS 'When it was applied.';`
}
