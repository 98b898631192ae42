import { randomUUID } from 'node:crypto'
import { isConnectionLost, isPawlError } from '../errors.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { isSilence } from '../driver/silence.js'
import { RECONNECT_TRIES, RESERVE_ROUNDS } from '../limits.js'
import { explained } from '../storage/schema/explaining.js'
import type { Store } from '../storage/statement.js'
import type { RequestContext } from './request-context.js'

/** The key could not be looked at. */
export type NoAnswer =
  /** Another transaction holds the row's lock. */
  { readonly type: 'locked' } | { readonly type: 'unavailable'; readonly error: unknown }

/** One round of asking. `moved`: the row has changed since it was read, and is asked for again. */
type Ask<T> = (store: Store, holder: string) => Promise<T | { readonly type: 'moved' }>

/**
 * Asks for a key until there is an answer. A connection that breaks on the way is replaced; the holder's name tells whether
 * the grant went through. A granted key keeps its session, because a transaction often follows at once.
 */
export async function askForKey<T extends { readonly type: string }>(
  engine: RequestContext,
  ask: Ask<T>,
): Promise<T | NoAnswer> {
  const { breaker } = engine
  const refusal = breaker.refusal()
  if (refusal !== null) return { type: 'unavailable', error: refusal }
  const holder = randomUUID()
  let lastError: unknown = null
  for (let attempt = 0; attempt < RECONNECT_TRIES; attempt++) {
    try {
      return await askOnSession(engine, ask, holder)
    } catch (error) {
      lastError = error
      const sqlState = sqlStateOf(error)
      const wrongUse = await explained(engine, error)
      if (wrongUse !== error || isInvalidOption(error)) throw wrongUse
      if (sqlState === '55P03') return { type: 'locked' }
      if (!isConnectionLost(error)) break
      // By then, this request has waited for longer than any other has to.
      if (isSilence(error)) {
        breaker.failed(error)
        if (breaker.isOpen) return { type: 'unavailable', error }
      }
    }
  }
  // A connection that was idle for long may be broken, and the next one works: only what remains after all tries counts.
  if (!isSilence(lastError)) breaker.failed(lastError)
  return { type: 'unavailable', error: lastError }
}

/** An option that only the tables show to be wrong: asking again would not help. */
const isInvalidOption = (error: unknown): boolean =>
  isPawlError(error) && error.code === 'PAWL_INVALID_OPTION'

async function askOnSession<T extends { readonly type: string }>(
  { sessions, tables }: RequestContext,
  ask: Ask<T>,
  holder: string,
): Promise<T | NoAnswer> {
  const session = await sessions.acquire('reserve')
  let granted = false
  try {
    const answer = await askInRounds({ session, tables }, ask, holder)
    granted = answer.type === 'granted'
    return answer
  } finally {
    if (!granted) session.release()
  }
}

async function askInRounds<T extends { readonly type: string }>(
  store: Store,
  ask: Ask<T>,
  holder: string,
): Promise<T | NoAnswer> {
  for (let round = 0; round < RESERVE_ROUNDS; round++) {
    try {
      const answer = await ask(store, holder)
      if (answer.type !== 'moved') return answer as T
    } catch (error) {
      // If the database defaults to REPEATABLE READ, meeting a row that was inserted a moment ago is a conflict.
      const sqlState = sqlStateOf(error)
      if (sqlState !== '40001' && sqlState !== '40P01') throw error
    }
  }
  return { type: 'locked' }
}
