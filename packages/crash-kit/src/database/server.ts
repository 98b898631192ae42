import pg from 'pg'
import { KitError } from '../kit-error.js'
import { MIN_SERVER_VERSION } from '../limits.js'
import { textRows } from './text-rows.js'

/** What the kit has to know about the server, and about its own role there. */
export interface Server {
  /** The search path of the application, as `SHOW search_path` returns it. */
  readonly searchPath: string
  readonly role: string
  readonly database: string
}

/** Reads the server as the application would: with its options and its hook. */
export async function readServer(connection: pg.PoolConfig): Promise<Server> {
  const pool = new pg.Pool({ ...connection, max: 1 })
  pool.on('error', () => {})
  try {
    const [row] = await textRows(
      pool,
      `SELECT current_setting('search_path') AS search_path, current_user AS role, current_database() AS database,
              current_setting('server_version_num') AS version, current_setting('server_version') AS version_name`,
    )
    if (Number(row?.['version']) < MIN_SERVER_VERSION * 10_000) {
      throw new KitError(
        'PAWL_KIT_SERVER_TOO_OLD',
        `The server is PostgreSQL ${row?.['version_name']}; Pawl needs ${MIN_SERVER_VERSION} or later. Pass a pool of a newer one, or none, for a PostgreSQL of the kit's own.`,
      )
    }
    return {
      searchPath: row?.['search_path'] ?? '',
      role: row?.['role'] ?? '',
      database: row?.['database'] ?? '',
    }
  } catch (error) {
    if (error instanceof KitError) throw error
    throw new KitError(
      'PAWL_KIT_NO_DATABASE',
      `The kit cannot connect with the options of the pool it was given: ${(error as Error).message}`,
      { cause: error },
    )
  } finally {
    await pool.end()
  }
}
