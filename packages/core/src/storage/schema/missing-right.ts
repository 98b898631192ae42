import { isOfStatementItself, sqlStateOf } from '../../driver/postgres-error.js'
import type { SessionPool } from '../../driver/session-pool.js'
import { PawlError } from '../../errors.js'
import { findMissingRights, type NeededRight } from './find-missing-rights.js'
import type { Tables } from '../tables.js'

const INSUFFICIENT_PRIVILEGE = '42501'

/**
 * Who works with the tables: requests and background services, an application that also steers keys, a person, whoever erases what a
 * scope has left, or an engine that records its pipelines or counts duplicates.
 */
export type Worker = 'application' | 'steering_application' | 'operator' | 'eraser' | 'recorder' | 'counter'

const ALL = ['SELECT', 'INSERT', 'UPDATE', 'DELETE']

/** The rights that docs/operations-reference.md says to grant to each. */
const NEEDED: Readonly<Record<Worker, Readonly<Record<string, readonly string[]>>>> = {
  application: { idempotency_keys: ALL, effects: ALL, staged_jobs: ALL },
  steering_application: { idempotency_keys: ['SELECT', 'UPDATE'], interventions: ['SELECT', 'INSERT'] },
  operator: {
    idempotency_keys: ['SELECT', 'UPDATE', 'DELETE'],
    effects: ['SELECT', 'UPDATE', 'DELETE'],
    staged_jobs: ['SELECT', 'UPDATE'],
    interventions: ['SELECT', 'INSERT'],
    migrations: ['SELECT'],
    cache_epoch: ['SELECT', 'INSERT', 'UPDATE'],
  },
  eraser: {
    idempotency_keys: ['SELECT', 'UPDATE', 'DELETE'],
    effects: ALL,
    staged_jobs: ['SELECT', 'UPDATE', 'DELETE'],
    interventions: ALL,
    scope_usage: ALL,
    duplicates: ['SELECT', 'DELETE'],
    cache_epoch: ['SELECT', 'INSERT', 'UPDATE'],
  },
  recorder: { pipelines: ['SELECT', 'INSERT', 'UPDATE'] },
  counter: { duplicates: ALL },
}

/** What whoever has limits needs as well; and whoever deletes or finishes a key whose bytes are counted, as the server then says. */
const USAGE = { scope_usage: ALL }

/**
 * Whether a statement of the framework failed because a right is missing. Where a trigger or a function lacks one, the
 * error has a `where`.
 */
export function isMissingRight(error: unknown): boolean {
  return sqlStateOf(error) === INSUFFICIENT_PRIVILEGE && isOfStatementItself(error)
}

/** Where the framework's tables are, how to get there, and whether the engine has limits. */
export interface Place {
  readonly sessions: SessionPool
  readonly tables: Tables
  readonly limits?: { readonly areOnAnywhere: boolean }
}

/**
 * Says which rights are missing on what, and how to grant them. We ask the server for them, because its own message names
 * only the first table, and in its own language.
 */
export async function missingRight(place: Place, cause: unknown, worker: Worker): Promise<PawlError> {
  const { sessions, tables, limits } = place
  const ofUsage = limits?.areOnAnywhere === true || (cause as Error).message.includes('scope_usage')
  const needed = Object.entries(ofUsage ? { ...NEEDED[worker], ...USAGE } : NEEDED[worker]).flatMap(
    ([table, rights]) => rights.map((right): NeededRight => ({ table, right })),
  )
  const found = await sessions
    .with('rights', (session) => findMissingRights({ session, tables }, needed))
    // If that fails, all we know is what the server said.
    .catch(() => null)
  return new PawlError('PAWL_MISSING_RIGHT', message(tables, found, cause), { cause })
}

/** Runs work on the tables. Where a right is missing, the error says which. */
export async function tellingRights<T>(place: Place, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isMissingRight(error) ? await missingRight(place, error, 'application') : error
  }
}

function message(
  { schema }: Tables,
  found: Awaited<ReturnType<typeof findMissingRights>> | null,
  cause: unknown,
): string {
  const said = (cause as Error).message
  if (found === null || (found.rights.length === 0 && found.mayUseSchema))
    return `PostgreSQL refused a statement of Pawl because a right is missing: ${said}. Check row-level security and column rights on the tables in schema '${schema}'.`
  const { role, mayUseSchema, rights } = found
  const tableNames = [...new Set(rights.map(({ table }) => table))]
  const missing = tableNames.map((name) => {
    const ofTable = rights.filter(({ table }) => table === name)
    return [ofTable.map(({ right }) => right).join(', '), `"${schema}"."${name}"`] as const
  })
  const lacks = missing.map(([list, table]) => `${list} on ${table}`)
  const grants = missing.map(([list, table]) => `GRANT ${list} ON ${table} TO ${quoted(role)};`)
  if (!mayUseSchema) {
    lacks.unshift(`USAGE on schema "${schema}"`)
    grants.unshift(`GRANT USAGE ON SCHEMA "${schema}" TO ${quoted(role)};`)
  }
  return `Role '${role}' lacks rights that Pawl needs: ${lacks.join('; ')}. The owner of the tables can grant them: ${grants.join(' ')}`
}

const quoted = (role: string): string => `"${role.replaceAll('"', '""')}"`
