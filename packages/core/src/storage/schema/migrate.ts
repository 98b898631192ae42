import type { Pool } from 'pg'
import { checkKnownOptions, checkWholeNumber, invalidOption, type OptionOwner } from '../../check-option.js'
import { sqlStateOf } from '../../driver/postgres-error.js'
import { SessionPool } from '../../driver/session-pool.js'
import { PawlError } from '../../errors.js'
import { DEFAULT_MIGRATION_PATIENCE_MS, MAX_INT32, MIGRATION_DEADLINE_MS } from '../../limits.js'
import {
  applyMigrations,
  createHistory,
  historyOf,
  type Migration,
  MIGRATIONS,
  OWN_SEARCH_PATH,
} from './apply-migrations.js'
import { checkLayout, DEFAULT_LAYOUT, type Layout, LAYOUT_OPTIONS, type LayoutOptions } from './layout.js'
import { isMissingRight } from './missing-right.js'
import { firstOnPath, isFirstOnPath } from './search-path.js'
import { readSession, type SessionFacts } from './read-session.js'
import { checkServer } from './supported-server.js'
import { DEFAULT_SCHEMA, type Tables, tablesIn } from '../tables.js'

/**
 * Where the tables go.
 *
 * @example
 * await migrate(pool, { schema: 'idempotency' }) // and the same for createEngine
 */
export interface MigrateOptions extends LayoutOptions {
  /** The schema for the framework's tables. Default `pawl`. */
  readonly schema?: string
  /**
   * How long to keep trying while others use the tables. Default 60 s. Each try waits only a second, so that requests are
   * not held up behind it.
   */
  readonly lockWaitMs?: number
}

const UNDEFINED_FUNCTION = '42883'

/** The version that this code works with. */
export const SCHEMA_VERSION = MIGRATIONS.length

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
  const { applied, warnings } = await migrateAndWarn(pool, options)
  for (const warning of warnings) process.emitWarning(warning)
  return { applied }
}

/** The same for a caller that itself tells people what to look at. Tests pass migrations of their own. */
export async function migrateAndWarn(
  pool: Pool,
  options: MigrateOptions = {},
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<{ readonly applied: number; readonly warnings: readonly string[] }> {
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'migrate' }
  checkKnownOptions(owner, options, ['schema', 'lockWaitMs', ...LAYOUT_OPTIONS])
  checkWholeNumber(owner, 'lockWaitMs', options.lockWaitMs, 0, MAX_INT32)
  const layout = checkLayout(owner, options)
  const tables = tablesIn(options.schema ?? DEFAULT_SCHEMA, owner.where)
  if (typeof (pool as Partial<Pool> | undefined)?.connect !== 'function')
    throw invalidOption(owner, 'the first argument', pool, 'a pg.Pool')
  const sessions = new SessionPool(pool, {
    acquireTimeoutMs: MIGRATION_DEADLINE_MS,
    statementDeadlineMs: MIGRATION_DEADLINE_MS,
    lockTimeoutMs: MIGRATION_DEADLINE_MS,
    pipelining: false,
    preparedStatements: false,
    spread: tables.spread,
    learn: () => Promise.resolve(),
    probe: null,
  })
  const session = await sessions.acquire('migrate').catch((error: unknown) => {
    throw unreachable(error)
  })
  const store = { session, tables }
  let facts: SessionFacts | null = null
  try {
    facts = await readSession(store)
    checkServer(facts)
    const patienceMs = options.lockWaitMs ?? DEFAULT_MIGRATION_PATIENCE_MS
    const applied = await applyMigrations(store, migrations, layout, patienceMs)
    if (!(await isFirstOnPath(store, facts))) return { applied, warnings: [] }
    const { detail, remedy } = firstOnPath(store, facts.role)
    return { applied, warnings: [`${detail} ${remedy}`] }
  } catch (error) {
    if (facts === null) throw error
    if (lacksCitus(error, layout)) throw noCitus(facts, error)
    throw isMissingRight(error) ? mayNot(tables, facts, error) : error
  } finally {
    session.release()
  }
}

/**
 * The SQL that `migrate` runs on an empty database, for people who apply it by other means.
 *
 * @example
 * writeFileSync('001-pawl.sql', migrationSql())
 */
export function migrationSql(options: Pick<MigrateOptions, 'schema' | keyof LayoutOptions> = {}): string {
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'migrationSql' }
  checkKnownOptions(owner, options, ['schema', ...LAYOUT_OPTIONS])
  const layout = checkLayout(owner, options) ?? DEFAULT_LAYOUT
  const tables = tablesIn(options.schema ?? DEFAULT_SCHEMA, 'migrationSql')
  const parts = [`CREATE SCHEMA IF NOT EXISTS "${tables.schema}";`, createHistory(tables)]
  for (const [index, write] of MIGRATIONS.entries()) {
    parts.push(
      write(tables, layout).trim(),
      `INSERT INTO ${historyOf(tables)} (version) VALUES (${index + 1});`,
    )
  }
  return `BEGIN;\n${OWN_SEARCH_PATH};\n${parts.join('\n')}\nCOMMIT;\n`
}

/** Says why the database cannot be reached: the pool's own message is that there is no connection, which helps nobody. */
function unreachable(error: unknown): unknown {
  if (!(error instanceof PawlError) || error.cause === undefined) return error
  const { cause } = error
  return new PawlError('PAWL_NO_CONNECTION', `migrate could not connect to PostgreSQL: ${reasonOf(cause)}`, {
    cause,
  })
}

function reasonOf(cause: unknown): string {
  // Several addresses were tried and none answered; the error itself then has no message.
  if (cause instanceof AggregateError) return [...new Set(cause.errors.map(reasonOf))].join('; ')
  return cause instanceof Error && cause.message !== '' ? cause.message : String(cause)
}

function lacksCitus(error: unknown, layout: Layout | null): boolean {
  return layout?.kind === 'citus' && sqlStateOf(error) === UNDEFINED_FUNCTION
}

function noCitus({ database }: SessionFacts, cause: unknown): PawlError {
  return new PawlError(
    'PAWL_UNSUPPORTED_SERVER',
    `Database '${database}' has no Citus, which layout 'citus' needs: CREATE EXTENSION citus; there and in a database of that name on ` +
      `each worker; then SELECT citus_add_node(host, port) for each worker, on the coordinator. Nothing was changed.`,
    { cause },
  )
}

function mayNot({ schema }: Tables, { role, database }: SessionFacts, cause: unknown): PawlError {
  return new PawlError(
    'PAWL_MISSING_RIGHT',
    `Role '${role}' may not create or change the tables of Pawl in schema '${schema}': ${(cause as Error).message}. ` +
      `Migrate as the role that owns them. For a schema that does not exist yet: GRANT CREATE ON DATABASE "${database}" TO "${role}"; ` +
      `or CREATE SCHEMA "${schema}" AUTHORIZATION "${role}"; ` +
      `for a role that only starts the application: GRANT USAGE ON SCHEMA "${schema}" TO "${role}"; ` +
      `GRANT SELECT ON "${schema}"."migrations" TO "${role}";`,
    { cause },
  )
}
