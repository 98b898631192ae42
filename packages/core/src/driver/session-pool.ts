import type { Pool, PoolClient } from 'pg'
import type { PawlError } from '../errors.js'
import type { TransactionStatus } from './borrowed-client.js'
import { NoConnectionError, type NoConnectionReason } from './no-connection.js'
import { sqlStateOf } from './postgres-error.js'
import { saysAway } from './server-is-away.js'
import { Session, type SessionOptions } from './session.js'
import type { Spread } from './spread.js'

export interface SessionPoolOptions extends SessionOptions {
  readonly acquireTimeoutMs: number
  readonly spread: Spread
  /** Finds out how the tables are spread; called with the first session, and again until it is known. */
  readonly learn: (session: Session) => Promise<void>
  /** Who wants to know how long sessions are waited for. Whoever works beside requests does not count. */
  readonly waits?: WaitsSlot
}

/** Whoever wants to know how long somebody has waited, and whether they got a session; null for nobody. */
interface WaitsSlot {
  readonly current: { waited(ms: number, got: boolean): void } | null
}

interface Waiting {
  readonly place: string
  readonly resolve: (session: Session) => void
  readonly reject: (error: PawlError) => void
  /** How many answers the server had given by then. */
  readonly answers: number
  /** The wait has been given up, and whoever asked has been told. */
  late: boolean
  /** How many clients were unusable. */
  discarded: number
}

/** Checks sessions out of the user's pool, and bounds the wait, which the pool itself may not do. */
export class SessionPool {
  readonly #pool: Pool
  readonly #options: SessionPoolOptions

  constructor(pool: Pool, options: SessionPoolOptions) {
    this.#pool = pool
    this.#options = options
  }

  acquire(place: string): Promise<Session> {
    const waits = this.#options.waits?.current ?? null
    return waits === null ? this.#acquire(place) : this.#acquireFor(waits, place)
  }

  #acquireFor(waits: NonNullable<WaitsSlot['current']>, place: string): Promise<Session> {
    const askedAt = performance.now()
    const session = this.#acquire(place)
    session.then(
      () => waits.waited(performance.now() - askedAt, true),
      () => waits.waited(performance.now() - askedAt, false),
    )
    return session
  }

  #acquire(place: string): Promise<Session> {
    const { acquireTimeoutMs } = this.#options
    return new Promise((resolve, reject) => {
      const answers = this.#answers
      const waiting: Waiting = { place, late: false, discarded: 0, answers, resolve, reject }
      const timer = setTimeout(() => {
        waiting.late = true
        reject(this.#tooLate(waiting, acquireTimeoutMs))
      }, acquireTimeoutMs)
      this.#connect(waiting, timer)
    })
  }

  #connect(waiting: Waiting, timer: NodeJS.Timeout): void {
    // A callback instead of a promise: there must be no moment between the pool's listening for errors and the session's.
    this.#pool.connect((error, client) => {
      // Released at once, or it would be lost to the pool forever.
      if (waiting.late) {
        client?.release()
        return
      }
      if (client !== undefined && isInTransaction(client)) {
        this.#discard(client, waiting, timer)
        return
      }
      clearTimeout(timer)
      if (client === undefined)
        waiting.reject(
          new NoConnectionError(this.#whyNot(waiting, error), 'Could not connect to PostgreSQL.', {
            cause: error,
          }),
        )
      else this.#open(client, waiting)
    })
  }

  #open(client: PoolClient, { place, resolve, reject }: Waiting): void {
    const session = new Session(client, place, this.#options)
    const { spread, learn } = this.#options
    if (spread.isKnown) {
      resolve(session)
      return
    }
    const known = (): void => resolve(session)
    const unknown = (error: unknown): void => {
      // After a broken connection or a missing right (class 42), the statement that follows meets the same, and says more. After
      // anything else it might go through, written for tables that lie otherwise.
      const sqlState = sqlStateOf(error)
      if (sqlState === null || sqlState.startsWith('42')) known()
      else {
        session.release()
        reject(new NoConnectionError('unusable', NOT_LEARNT, { cause: error }))
      }
    }
    // In a turn of its own: a client that has just connected does not know yet that it is idle.
    void Promise.resolve(session).then(learn).then(known, unknown)
  }

  /** Somebody has left a transaction open on the client: whatever is done in it is undone when that transaction ends. */
  #discard(client: PoolClient, waiting: Waiting, timer: NodeJS.Timeout): void {
    client.release(new Error(LEFT_OPEN))
    waiting.discarded++
    // All idle clients may be like that; a new one cannot be, unless the pool's own hooks do it.
    if (waiting.discarded <= this.#pool.options.max) {
      this.#connect(waiting, timer)
      return
    }
    clearTimeout(timer)
    waiting.reject(new NoConnectionError('unusable', LEFT_OPEN))
  }

  get #answers(): number {
    return this.#options.signs?.answers ?? 0
  }

  #tooLate(waiting: Waiting, waitedMs: number): NoConnectionError {
    const reason = this.#whileWaiting(waiting)
    return new NoConnectionError(reason, reason === 'busy' ? noneFree(waitedMs) : noAnswer(waitedMs))
  }

  /** What the pool's own error means. */
  #whyNot(waiting: Waiting, error: Error | undefined): NoConnectionReason {
    const sqlState = sqlStateOf(error)
    if (sqlState !== null) return saysAway(sqlState, false) ? 'away' : 'unusable'
    if (this.#pool.ending) return 'unusable'
    return error?.message === QUEUED_FOR_TOO_LONG ? this.#whileWaiting(waiting) : 'away'
  }

  /**
   * Whether the server is to blame for a wait: it has answered nothing meanwhile, and the pool is still connecting to it.
   * Otherwise, others hold the connections.
   */
  #whileWaiting({ answers }: Waiting): 'away' | 'busy' {
    const { _clients: clients = [] } = this.#pool as InsidePool
    const isConnecting = clients.some(({ _connecting }) => _connecting === true)
    return answers === this.#answers && isConnecting ? 'away' : 'busy'
  }

  /** Runs work on a session of its own and releases it, whatever happens. */
  async with<T>(place: string, work: (session: Session) => Promise<T>): Promise<T> {
    const session = await this.acquire(place)
    try {
      return await work(session)
    } finally {
      session.release()
    }
  }
}

/** Parts of the pool and its clients that their types leave out. Where a pool has no such parts, it counts as busy. */
type InsidePool = Pool & {
  readonly _clients?: readonly { readonly _connecting?: boolean }[]
}

/** What the pool says when its own `connectionTimeoutMillis` ends the wait for a connection that others hold. */
const QUEUED_FOR_TOO_LONG = 'timeout exceeded when trying to connect'

const noAnswer = (waitedMs: number): string =>
  `PostgreSQL did not answer while it was being connected to, for ${waitedMs} ms.`

const NOT_LEARNT = 'PostgreSQL could not say how the tables of Pawl are stored.'

const noneFree = (waitedMs: number): string =>
  `No connection of the pool became free within ${waitedMs} ms. Raise the pool's max or acquireTimeoutMs.`

const LEFT_OPEN =
  'A connection of the pool was in a transaction that Pawl did not begin, and was discarded. Find the code that leaves a BEGIN ' +
  'behind.'

function isInTransaction(client: PoolClient): boolean {
  const status = (client as PoolClient & { getTransactionStatus(): TransactionStatus }).getTransactionStatus()
  // A client that has just connected does not know yet; each statement asks again before it is sent.
  return status === 'T' || status === 'E'
}
