import { setTimeout as delay } from 'node:timers/promises'
import type { Begin } from '../../driver/outgoing.js'
import { sqlStateOf } from '../../driver/postgres-error.js'
import type { SessionTransaction } from '../../driver/session-transaction.js'
import { PawlError } from '../../errors.js'
import { MIGRATION_LOCK_MS, MIGRATION_PAUSE_MS } from '../../limits.js'
import { initial } from './migrations/001-initial.js'
import { qualified } from '../qualified.js'
import { findLockHolders, type LockHolder } from './find-lock-holders.js'
import { DEFAULT_LAYOUT, type Layout, sameLayout, sayLayout } from './layout.js'
import { readLayout } from './read-layout.js'
import type { Store } from '../statement.js'
import type { Tables } from '../tables.js'

/** Writes the SQL of one step from a version of the schema to the next. */
export type Migration = (tables: Tables, layout: Layout) => string

/** In order, and never changed once released: a database remembers only how many of them it has had. */
export const MIGRATIONS: readonly Migration[] = [initial]

/**
 * The types, functions and operators in a migration are PostgreSQL's own, whatever the role's search path says. Unlike a
 * request's statement, a migration fires no trigger of the application that would need another path.
 */
export const OWN_SEARCH_PATH = 'SET LOCAL search_path = pg_catalog, pg_temp'

/**
 * Applies what is missing, in one transaction. A migration has to have the tables to itself: it waits behind whoever
 * uses them, and requests wait behind it. So it gives up its place after a moment, lets the requests through, and tries
 * again, for `patienceMs` in all.
 */
export async function applyMigrations(
  store: Store,
  migrations: readonly Migration[],
  layout: Layout | null,
  patienceMs: number,
): Promise<number> {
  const endsAt = performance.now() + patienceMs
  for (let tries = 1; ; tries++) {
    const applied = await tryOnce(store, migrations, layout)
    if (applied !== 'locked') return applied
    const holders = await findLockHolders(store)
    if (performance.now() + MIGRATION_PAUSE_MS > endsAt) throw blocked(store.tables, tries, holders)
    await delay(MIGRATION_PAUSE_MS)
  }
}

/**
 * READ COMMITTED whatever the database's default, to see what another process did while this one waited. And without the
 * role's time-outs: other processes take their time, and so does an index on a large table.
 */
const BEGIN: Begin = {
  alone: {
    name: 'migrate_begin',
    text: `BEGIN ISOLATION LEVEL READ COMMITTED; ${OWN_SEARCH_PATH}; ${timeouts(0)}`,
  },
  together: [],
}

async function tryOnce(
  store: Store,
  migrations: readonly Migration[],
  layout: Layout | null,
): Promise<number | 'locked'> {
  const transaction = store.session.begin(BEGIN)
  try {
    const applied = await applyMissing(transaction, store, migrations, layout)
    if (applied === 'locked') await transaction.rollBack()
    else await transaction.commit([])
    return applied
  } catch (error) {
    await transaction.rollBack()
    throw error
  }
}

async function applyMissing(
  transaction: SessionTransaction,
  store: Store,
  migrations: readonly Migration[],
  wanted: Layout | null,
): Promise<number | 'locked'> {
  const { tables } = store
  // A lock of the transaction, not of the session: it works behind a pooler, and cannot be left behind.
  const lock = qualified(`SELECT pg_advisory_xact_lock(hashtextextended('pawl.migrate.${tables.schema}', 0))`)
  const run = (name: string, text: string) => transaction.run({ statement: { name, text } })
  await run('migrate_lock', lock)
  // We ask first, because creating a schema needs the right to create it even where it already exists.
  if (!(await exists(transaction, 'to_regnamespace', `"${tables.schema}"`))) {
    await run('migrate_schema', `CREATE SCHEMA "${tables.schema}"`)
  }
  if (!(await exists(transaction, 'to_regclass', historyOf(tables)))) {
    await run('migrate_history', createHistory(tables))
  }
  const { rows } = await run(
    'migrate_version',
    qualified(`SELECT coalesce(max(version), 0) AS version FROM ${historyOf(tables)}`),
  )
  const version = Number(rows[0]?.['version'])
  const layout = version === 0 ? (wanted ?? DEFAULT_LAYOUT) : await existingLayout(transaction, store, wanted)
  if (version >= migrations.length) return 0
  if (version > 0 && !(await lockTables(transaction, tables))) return 'locked'
  for (const [index, write] of migrations.entries()) {
    if (index < version) continue
    await run('migrate_step', write(tables, layout))
    await run('migrate_record', `INSERT INTO ${historyOf(tables)} (version) VALUES (${index + 1})`)
  }
  return migrations.length - version
}

/** Returns the layout that the tables have. Throws if another one is asked for: `migrate` moves no rows. */
async function existingLayout(
  transaction: SessionTransaction,
  store: Store,
  wanted: Layout | null,
): Promise<Layout> {
  const { tables } = store
  const read = await readLayout(store, (statement) => transaction.run(statement.bind(tables, [])))
  const has = read ?? DEFAULT_LAYOUT
  if (wanted === null || sameLayout(wanted, has)) return has
  throw new PawlError(
    'PAWL_OTHER_LAYOUT',
    `The tables in schema '${tables.schema}' are ${sayLayout(has)}, and ${sayLayout(wanted)} was asked for. migrate moves no ` +
      'rows: leave the option out, or move them as docs/partitioning.md says.',
  )
}

/** Lock not available, query cancelled by a time-out, deadlock. */
const IN_USE_STATES = new Set(['55P03', '57014', '40P01'])

/**
 * Locks all tables before the first change, so that it never waits for one table during a change to another, and in the
 * order of a request's own statements. `statement_timeout` bounds the wait, since `lock_timeout` starts again for each
 * table.
 */
async function lockTables(transaction: SessionTransaction, tables: Tables): Promise<boolean> {
  const { stagedJobs, keys, effects, interventions, cacheEpoch } = tables
  const lock = `LOCK TABLE ${[stagedJobs, keys, effects, interventions, cacheEpoch].join(', ')} IN ACCESS EXCLUSIVE MODE`
  try {
    const text = `${timeouts(MIGRATION_LOCK_MS)}; ${lock}; ${timeouts(0)}`
    await transaction.run({ statement: { name: 'migrate_lock_tables', text } })
    return true
  } catch (error) {
    if (IN_USE_STATES.has(sqlStateOf(error) ?? '')) return false
    throw error
  }
}

function timeouts(ms: number): string {
  return `SET LOCAL statement_timeout = ${ms}; SET LOCAL lock_timeout = ${ms}`
}

function blocked({ schema }: Tables, tries: number, holders: readonly LockHolder[]): PawlError {
  const who = holders.map(
    ({ pid, role, application, state, forMs, query }) =>
      `process ${pid} (role '${role}', application '${application}', ${state}, its transaction open for ${Math.round(forMs / 1_000)} s, query: ${query})`,
  )
  const holds =
    who.length === 0 ? 'whoever was using them has finished by now' : `they are in use by ${who.join(', ')}`
  return new PawlError(
    'PAWL_MIGRATION_BLOCKED',
    `The tables in schema '${schema}' could not be locked in ${tries} ${tries === 1 ? 'try' : 'tries'}: ${holds}. Nothing was changed. ` +
      `Migrate when no long transaction is open, or end it (SELECT pg_terminate_backend(pid)); lockWaitMs says for how long to try.`,
  )
}

async function exists(
  transaction: SessionTransaction,
  lookUp: 'to_regnamespace' | 'to_regclass',
  name: string,
): Promise<boolean> {
  const text = qualified(`SELECT ${lookUp}($1) IS NOT NULL AS found`)
  const { rows } = await transaction.run({ statement: { name: 'migrate_look', text }, values: [name] })
  return rows[0]?.['found'] === 't'
}

export const historyOf = ({ schema }: Tables): string => `"${schema}"."migrations"`

export function createHistory(tables: Tables): string {
  const table = historyOf(tables)
  return `CREATE TABLE IF NOT EXISTS ${table} (
  version    integer PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE ${table} IS 'Which migrations of Pawl this schema has.';
COMMENT ON COLUMN ${table}.version IS 'Number of the migration.';
COMMENT ON COLUMN ${table}.applied_at IS 'When it was applied.';`
}
