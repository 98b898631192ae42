import { migrate, type MigrateOptions } from '@pawl/core'
import pg from 'pg'
import { inject } from 'vitest'
import { LAYOUT } from './layout.js'
import { randomLetters } from './random-letters.js'

/**
 * A pair of schemas that was given back waits until this many others have been given back as well. Whatever a test has left
 * running by mistake has ended by the time that another test gets its tables.
 */
const LEAST_WAITING = 2

/** Emptying tables takes milliseconds if nobody has locked them. Tables that a test has left locked are not used again. */
const LOCK_TIMEOUT_MS = 1_000

const EMPTIED = [
  'readings',
  'duplicates',
  'pipelines',
  'cache_epoch',
  'scope_usage',
  'interventions',
  'staged_jobs',
  'effects',
  'idempotency_keys',
]

/** The schema of a test's business rows, the framework's schema, and a pool to inspect and change both. */
export interface Schemas {
  readonly business: string
  readonly framework: string
  readonly admin: pg.Pool
  /** What the framework's schema looks like after its migration. */
  readonly blueprint: string
}

// A migration costs ten times as much as emptying its tables. So they are used again, as long as nobody has changed them.
const waiting: Schemas[] = []

/** Schemas that nobody has used, or that look like it. */
export async function takeSchemas(): Promise<Schemas> {
  while (waiting.length > LEAST_WAITING) {
    const schemas = waiting.shift() as Schemas
    if (await isCleaned(schemas)) return schemas
    // The end of the test run drops what is left. We do not await this, because it would wait for clients that a test has kept.
    if (!schemas.admin.ended) void schemas.admin.end()
  }
  return createSchemas(inject('databaseUrl'))
}

/** Takes back schemas that a test is done with. */
export function giveBack(schemas: Schemas): void {
  waiting.push(schemas)
}

export async function createSchemas(url: string, layout: MigrateOptions = LAYOUT): Promise<Schemas> {
  const business = `t_${inject('testRun')}_${randomLetters()}`
  const framework = `${business}_pawl`
  const admin = adminOf(url, business)
  await admin.query(`CREATE SCHEMA ${business}`)
  await migrate(admin, { schema: framework, ...layout })
  return { business, framework, admin, blueprint: await blueprintOf(admin, framework) }
}

export async function dropSchemas({ business, framework, admin }: Schemas): Promise<void> {
  await admin.query(`DROP SCHEMA IF EXISTS ${framework}, ${business} CASCADE`)
  if (!admin.ended) await admin.end()
}

function adminOf(url: string, business: string): pg.Pool {
  const options = `-c search_path=${business}`
  const application_name = `${business}_admin`
  const admin = new pg.Pool({ connectionString: url, options, max: 8, application_name })
  admin.on('error', () => {})
  return admin
}

/** Empties them, and returns whether they are as the migration has left them. */
async function isCleaned({ business, framework, admin, blueprint }: Schemas): Promise<boolean> {
  if (admin.ended || admin.idleCount < admin.totalCount) return false
  const deletes = EMPTIED.map((table) => `DELETE FROM ${framework}.${table};`).join(' ')
  try {
    await admin.query(
      `SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}; DROP SCHEMA IF EXISTS ${business} CASCADE`,
    )
    if ((await blueprintOf(admin, framework)) !== blueprint) return false
    await admin.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}; CREATE SCHEMA ${business}; ${deletes}`)
    return true
  } catch {
    return false
  }
}

/**
 * All of the catalog that a test may have changed. A row's `xmin` shows a change, and costs less than comparing the row;
 * but that of a table also changes when another table refers to it.
 */
async function blueprintOf(admin: pg.Pool, framework: string): Promise<string> {
  const { rows } = await admin.query<{ blueprint: string }>(
    `WITH place AS (SELECT oid, xmin, nspacl FROM pg_namespace WHERE nspname = $1),
          parts AS (SELECT c.* FROM pg_class c, place WHERE c.relnamespace = place.oid)
     SELECT md5(string_agg(part, E'\\n' ORDER BY part)) AS blueprint FROM (
       SELECT format('schema %s', xmin) AS part FROM place
       UNION ALL SELECT format('class %s %s %s %s %s %s %s %s %s', oid, relname, relkind, relowner, relacl, reloptions,
                               relnatts, relchecks, relrowsecurity) FROM parts
       UNION ALL SELECT format('column %s %s %s', attrelid, attnum, a.xmin) FROM pg_attribute a JOIN parts ON parts.oid = attrelid
       UNION ALL SELECT format('default %s', d.xmin) FROM pg_attrdef d JOIN parts ON parts.oid = adrelid
       UNION ALL SELECT format('index %s %s', indexrelid, i.xmin) FROM pg_index i JOIN parts ON parts.oid = indrelid
       UNION ALL SELECT format('constraint %s %s', n.oid, n.xmin) FROM pg_constraint n JOIN parts ON parts.oid = conrelid
       UNION ALL SELECT format('trigger %s %s', t.oid, t.xmin) FROM pg_trigger t JOIN parts ON parts.oid = tgrelid
                  WHERE NOT tgisinternal
       UNION ALL SELECT format('rule %s %s', r.oid, r.xmin) FROM pg_rewrite r JOIN parts ON parts.oid = ev_class
       UNION ALL SELECT format('policy %s', p.oid) FROM pg_policy p JOIN parts ON parts.oid = polrelid
       UNION ALL SELECT format('function %s %s', p.oid, p.xmin) FROM pg_proc p, place WHERE pronamespace = place.oid
       UNION ALL SELECT format('type %s', t.typname) FROM pg_type t, place WHERE typnamespace = place.oid
       UNION ALL SELECT format('operator %s', o.oid) FROM pg_operator o, place WHERE oprnamespace = place.oid) AS all_parts`,
    [framework],
  )
  return rows[0]?.blueprint ?? 'gone'
}
