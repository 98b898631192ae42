import type { Pool, PoolClient } from 'pg'
import { PawlError } from '../errors.js'
import type { Probe } from './probe.js'
import { Session } from './session.js'

export interface SessionPoolOptions {
  readonly acquireTimeoutMs: number
  /** Deadline of a statement until the session is told another. */
  readonly statementDeadlineMs: number
  readonly probe: Probe | null
}

/** Checks sessions out of the user's pool, with a bound on the wait that the pool itself may not have. */
export class SessionPool {
  readonly #pool: Pool
  readonly #options: SessionPoolOptions

  constructor(pool: Pool, options: SessionPoolOptions) {
    this.#pool = pool
    this.#options = options
  }

  async acquire(phase: string): Promise<Session> {
    const { acquireTimeoutMs, statementDeadlineMs, probe } = this.#options
    const connecting = this.#pool.connect()
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), acquireTimeoutMs)
    })
    let client: PoolClient | null
    try {
      client = await Promise.race([connecting, timeout])
    } catch (error) {
      throw new PawlError('PAWL_NO_CONNECTION', 'Could not connect to PostgreSQL.', { cause: error })
    } finally {
      clearTimeout(timer)
    }
    if (client === null) {
      // It may still come: hand it straight back, or it is lost to the pool for ever.
      connecting.then(
        (late) => late.release(),
        () => {},
      )
      throw new PawlError(
        'PAWL_NO_CONNECTION',
        `No connection of the pool became free within ${acquireTimeoutMs} ms. Raise the pool's max or acquireTimeoutMs.`,
      )
    }
    return new Session(client, phase, statementDeadlineMs, probe)
  }

  /** Runs work on a session of its own and gives it back, whatever happens. */
  async with<T>(phase: string, work: (session: Session) => Promise<T>): Promise<T> {
    const session = await this.acquire(phase)
    try {
      return await work(session)
    } finally {
      session.release()
    }
  }
}
