import type { Pool } from 'pg'
import { checkKnownOptions, invalidOption } from '../check-option.js'
import { rollBack } from '../driver/kysely-driver.js'
import type { Session } from '../driver/session.js'
import { SessionPool } from '../driver/session-pool.js'
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
    pipelining: false,
    preparedStatements: false,
    probe: null,
  })
  return sessions.with('migrate', async (session) => {
    try {
      const applied = await applyMissing(session, tables)
      await session.run({ name: 'commit', text: 'COMMIT' })
      return { applied }
    } catch (error) {
      await rollBack(session)
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

async function applyMissing(session: Session, tables: Tables): Promise<number> {
  // A lock of the transaction, not of the session: it holds behind a pooler, and cannot be left behind.
  const lock = `pg_advisory_xact_lock(hashtextextended('pawl.migrate.${tables.schema}', 0))`
  // READ COMMITTED whatever the database's default: what another process did while this one waited has to be seen.
  await session.run({ name: 'migrate_lock', text: `BEGIN ISOLATION LEVEL READ COMMITTED; SELECT ${lock}` })
  // Asking first: creating what is there already needs the right to create it all the same.
  if (!(await exists(session, 'to_regnamespace', `"${tables.schema}"`))) {
    await session.run({ name: 'migrate_schema', text: `CREATE SCHEMA "${tables.schema}"` })
  }
  if (!(await exists(session, 'to_regclass', historyOf(tables)))) {
    await session.run({ name: 'migrate_history', text: createHistory(tables) })
  }
  const { rows } = await session.run({
    name: 'migrate_version',
    text: `SELECT coalesce(max(version), 0) AS version FROM ${historyOf(tables)}`,
  })
  const version = Number(rows[0]?.['version'])
  for (const [index, write] of MIGRATIONS.entries()) {
    if (index < version) continue
    await session.run({ name: 'migrate_step', text: write(tables) })
    await session.run({
      name: 'migrate_record',
      text: `INSERT INTO ${historyOf(tables)} (version) VALUES (${index + 1})`,
    })
  }
  return Math.max(0, MIGRATIONS.length - version)
}

async function exists(
  session: Session,
  lookUp: 'to_regnamespace' | 'to_regclass',
  name: string,
): Promise<boolean> {
  const text = `SELECT ${lookUp}($1) IS NOT NULL AS found`
  const { rows } = await session.run({ name: 'migrate_look', text }, [name])
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
