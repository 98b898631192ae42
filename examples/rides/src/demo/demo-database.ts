import { randomUUID } from 'node:crypto'
import { startPostgres } from '@pawl/dev-postgres'
import pg from 'pg'

export interface DemoDatabase {
  readonly url: string
  stop(): Promise<void>
}

/** What `migrate` of this example creates. */
const TABLES = ['rides', 'audit_records', 'users']
const SCHEMAS = ['pawl', 'graphile_worker']

/** A PostgreSQL of its own; or, on the server of `DATABASE_URL`, a database of its own. */
export async function startDatabase(layout: string): Promise<DemoDatabase> {
  const given = process.env['DATABASE_URL'] ?? ''
  if (given === '') {
    const postgres = await startPostgres()
    return { url: postgres.url, stop: () => postgres.stop() }
  }
  const admin = new pg.Client({ connectionString: given })
  await admin.connect()
  return layout === 'citus' ? borrow(admin, given) : createOn(admin, given)
}

async function createOn(admin: pg.Client, server: string): Promise<DemoDatabase> {
  const name = `rides_${randomUUID().replaceAll('-', '').slice(0, 12)}`
  await admin.query(`CREATE DATABASE ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    url: url.href,
    async stop() {
      await admin.query(`DROP DATABASE ${name} WITH (FORCE)`)
      await admin.end()
    },
  }
}

/** The database of the URL itself, since one that is new would not be on the cluster's workers. It is left as it was. */
async function borrow(admin: pg.Client, url: string): Promise<DemoDatabase> {
  const { rows } = await admin.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relname = ANY ($1) AND relnamespace = 'public'::regnamespace
      UNION ALL SELECT nspname FROM pg_namespace WHERE nspname = ANY ($2)`,
    [TABLES, SCHEMAS],
  )
  if (rows.length > 0) {
    await admin.end()
    const names = rows.map(({ name }) => name).join(', ')
    throw new Error(
      `DATABASE_URL names a database that has ${names} already. With LAYOUT=citus, the demo takes one without.`,
    )
  }
  return {
    url,
    async stop() {
      await admin.query(`DROP TABLE IF EXISTS ${TABLES.join(', ')}`)
      await admin.query(`DROP SCHEMA IF EXISTS ${SCHEMAS.join(', ')} CASCADE`)
      await admin.end()
    },
  }
}
