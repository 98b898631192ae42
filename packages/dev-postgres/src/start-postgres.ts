import { SupervisorClient } from './supervisor-client.js'
import type { ServerStatus } from './messages.js'

export type StartPostgresOptions = {
  /** Server settings on top of the defaults, e.g. `{ log_statement: 'all' }`; they survive a restart. */
  readonly settings?: Readonly<Record<string, string>>
  /** The port to use. Without it, a free one is chosen. */
  readonly port?: number
}

/** A running PostgreSQL 18 of our own. When the process that started it ends, it stops and its files are removed. */
export type DevPostgres = {
  /** A connection string for the database `pawl`, as the superuser `postgres`, with a password of this server's own. */
  readonly url: string
  readonly port: number
  /** The postmaster's process id; null while the server is down. */
  readonly pid: number | null
  /** Holds `data/` and `postgres.log`. */
  readonly directory: string
  /**
   * Stops the server and removes its directory. Sessions that are closing get the time to do so; those that stay are
   * ended after two seconds. Calling it again does nothing.
   */
  stop(): Promise<void>
  /** Stops the server immediately, as in a crash: nothing is flushed, and the data directory stays for `restart`. */
  kill(): Promise<void>
  /** Starts the server again, on the same port and data; stops it first if it is up. */
  restart(): Promise<void>
}

/**
 * Starts a real PostgreSQL on 127.0.0.1, with a data directory of its own. Any number can run side by side.
 *
 * @example
 * const postgres = await startPostgres({ settings: { log_statement: 'all' } })
 * const pool = new pg.Pool({ connectionString: postgres.url })
 * // …
 * await pool.end()
 * await postgres.stop()
 */
export async function startPostgres(options: StartPostgresOptions = {}): Promise<DevPostgres> {
  const supervisor = new SupervisorClient()
  const { settings = {}, port = null } = options
  let status: ServerStatus = await supervisor.send({ name: 'start', settings, port })
  let stopped: Promise<void> | undefined

  return {
    url: status.url,
    port: status.port,
    directory: status.directory,
    get pid() {
      return status.pid
    },
    stop() {
      stopped ??= supervisor.send({ name: 'stop' }).then(async (last) => {
        status = last
        await supervisor.ended()
      })
      return stopped
    },
    async kill() {
      status = await supervisor.send({ name: 'kill' })
    },
    async restart() {
      status = await supervisor.send({ name: 'restart' })
    },
  }
}
