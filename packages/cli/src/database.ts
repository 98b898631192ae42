import { createOperator, type Operator } from '@pawl/core'
import pg from 'pg'
import { usageError } from './cli-error.js'
import { parseProtectKeys } from './parse/protect-keys.js'
import { CONNECT_TIMEOUT_MS, MAX_CONNECTIONS } from './limits.js'

/** What a command uses to query the database. */
export interface Database {
  readonly operator: Operator
  readonly pool: pg.Pool
  /** The database's clock: leases and ages are counted by it, and this machine's clock may be wrong. */
  readonly now: () => Promise<Date>
}

/** What the environment says. */
interface Secrets {
  readonly hashSecret: string | undefined
  readonly protectKeys: string | undefined
}

/** Opens the database for as long as `work` runs. No connection is made before the first query. */
export async function withDatabase<T>(
  url: string | undefined,
  { schema, hashSecret, protectKeys }: Secrets & { readonly schema: string },
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const protect = parseProtectKeys(protectKeys)
  const pool = new pg.Pool({
    connectionString: checkUrl(url),
    max: MAX_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: 'pawl-cli',
  })
  // If a connection breaks while nobody uses it, the next query reports that.
  pool.on('error', () => {})
  try {
    const now = async () => {
      const { rows } = await pool.query<{ now: Date }>('SELECT pg_catalog.clock_timestamp() AS now')
      return rows[0]?.now ?? new Date()
    }
    return await work({
      operator: createOperator({
        pool,
        schema,
        ...(hashSecret !== undefined && { hashSecret }),
        ...(protect !== null && { protect }),
      }),
      pool,
      now,
    })
  } finally {
    await pool.end()
  }
}

/** Throws a usage error where no database is given. */
export function checkUrl(url: string | undefined): string {
  if (url === undefined || url === '') {
    throw usageError('No database was given. Set DATABASE_URL, or pass --database-url postgresql://….')
  }
  if (!/^postgres(?:ql)?:\/\//.test(url) || !URL.canParse(url)) {
    // Without the text itself, which may contain a password.
    throw usageError('The database URL cannot be read; it has to be like postgresql://user@host:5432/name.')
  }
  return url
}
