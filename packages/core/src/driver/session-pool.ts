import type { Pool } from 'pg'
import { PawlError } from '../errors.js'
import { Session, type SessionOptions } from './session.js'

export interface SessionPoolOptions extends SessionOptions {
  readonly acquireTimeoutMs: number
}

/** Checks sessions out of the user's pool, with a bound on the wait that the pool itself may not have. */
export class SessionPool {
  readonly #pool: Pool
  readonly #options: SessionPoolOptions

  constructor(pool: Pool, options: SessionPoolOptions) {
    this.#pool = pool
    this.#options = options
  }

  acquire(phase: string): Promise<Session> {
    const { acquireTimeoutMs } = this.#options
    return new Promise((resolve, reject) => {
      let late = false
      const timer = setTimeout(() => {
        late = true
        reject(new PawlError('PAWL_NO_CONNECTION', noneFree(acquireTimeoutMs)))
      }, acquireTimeoutMs)
      // Called back, not awaited: there must be no moment between the pool's listening for errors and the session's.
      this.#pool.connect((error, client) => {
        clearTimeout(timer)
        if (client === undefined)
          reject(new PawlError('PAWL_NO_CONNECTION', 'Could not connect to PostgreSQL.', { cause: error }))
        // Handed straight back, or it is lost to the pool for ever.
        else if (late) client.release()
        else resolve(new Session(client, phase, this.#options))
      })
    })
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

const noneFree = (waitedMs: number): string =>
  `No connection of the pool became free within ${waitedMs} ms. Raise the pool's max or acquireTimeoutMs.`
