import { randomBytes } from 'node:crypto'
import { startPostgres } from '@pawl/dev-postgres'
import pg from 'pg'
import { MAX_CONNECTIONS } from '../limits.js'

/** How the server is set, as far as figures depend on it. */
type ServerSettings = Readonly<Record<(typeof SETTINGS)[number], string>>

/** The bench's own database, on a server that it starts or on a given one. */
export interface BenchDatabase {
  readonly url: string
  /** Says whose server it is. */
  readonly kind: 'embedded' | 'given'
  readonly version: string
  readonly settings: ServerSettings
  /** A connection for counting and preparing. */
  readonly observer: pg.Client
  /** Drops the database; stops the server, if it is ours. */
  close(): Promise<void>
}

const SETTINGS = [
  'fsync',
  'synchronous_commit',
  'full_page_writes',
  'shared_buffers',
  'max_wal_size',
  'max_connections',
] as const

/** Durable, as in production. A checkpoint in the middle of a round would hit one contender and not the others. */
const OWN_SETTINGS = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  max_wal_size: '8GB',
  checkpoint_timeout: '30min',
  max_connections: String(MAX_CONNECTIONS),
}

/** Creates an empty database, so that one statement removes everything that contenders leave. */
export async function openDatabase(givenUrl: string | undefined): Promise<BenchDatabase> {
  if (givenUrl !== undefined) return createDatabase(givenUrl, 'given', async () => {})
  const server = await startPostgres({ settings: OWN_SETTINGS })
  return createDatabase(server.url, 'embedded', () => server.stop())
}

async function createDatabase(
  serverUrl: string,
  kind: BenchDatabase['kind'],
  stopServer: () => Promise<void>,
): Promise<BenchDatabase> {
  const name = `pawl_bench_${randomBytes(4).toString('hex')}`
  await onServer(serverUrl, `CREATE DATABASE ${name}`).catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`The bench needs a database of its own at DATABASE_URL, and cannot create one: ${why}`, {
      cause,
    })
  })
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  const observer = new pg.Client({ connectionString: url.href })
  // At the end its database is dropped under it, if the run was interrupted.
  observer.on('error', () => {})
  await observer.connect()
  const version = await show(observer, 'server_version')
  const settings = await readSettings(observer)
  return {
    url: url.href,
    kind,
    version,
    settings,
    observer,
    async close() {
      await observer.end().catch(() => {})
      // Also those that a contender's library made beside it, named after it.
      if (kind === 'given') await dropDatabases(serverUrl, name)
      await stopServer()
    },
  }
}

async function dropDatabases(serverUrl: string, prefix: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  try {
    const { rows } = await client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE starts_with(datname, $1)',
      [prefix],
    )
    for (const { datname } of rows) {
      await client.query(`DROP DATABASE IF EXISTS ${client.escapeIdentifier(datname)} WITH (FORCE)`)
    }
  } finally {
    await client.end()
  }
}

async function onServer(serverUrl: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

async function readSettings(client: pg.Client): Promise<ServerSettings> {
  const settings: Record<string, string> = {}
  for (const name of SETTINGS) settings[name] = await show(client, name)
  return settings as ServerSettings
}

async function show(client: pg.Client, setting: string): Promise<string> {
  const { rows } = await client.query<Record<string, string>>(`SHOW ${setting}`)
  return rows[0]?.[setting] ?? ''
}
