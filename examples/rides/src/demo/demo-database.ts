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
  return layout === 'citus' ? borrow(given) : createOn(given)
}

async function createOn(server: string): Promise<DemoDatabase> {
  const name = `rides_${randomUUID().replaceAll('-', '').slice(0, 12)}`
  await run(server, `CREATE DATABASE ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    url: url.href,
    async stop() {
      await run(server, `DROP DATABASE ${name} WITH (FORCE)`)
    },
  }
}

/** The database of the URL itself, since one that is new would not be on the cluster's workers. It is left as it was. */
async function borrow(url: string): Promise<DemoDatabase> {
  const there = await run(
    url,
    `SELECT relname AS name FROM pg_class WHERE relname = ANY ($1) AND relnamespace = 'public'::regnamespace
      UNION ALL SELECT nspname FROM pg_namespace WHERE nspname = ANY ($2)`,
    [TABLES, SCHEMAS],
  )
  if (there.length > 0)
    throw new Error(
      `DATABASE_URL names a database that has ${there.map(({ name }) => name).join(', ')} already. ` +
        'With LAYOUT=citus, the demo takes one without.',
    )
  return {
    url,
    async stop() {
      await run(url, `DROP TABLE IF EXISTS ${TABLES.join(', ')}`)
      await run(url, `DROP SCHEMA IF EXISTS ${SCHEMAS.join(', ')} CASCADE`)
    },
  }
}

/** In a connection of its own: the server may be restarted while the demo runs. */
async function run(url: string, sql: string, values: unknown[] = []): Promise<{ readonly name: string }[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<{ name: string }>(sql, values)).rows
  } finally {
    await client.end()
  }
}
