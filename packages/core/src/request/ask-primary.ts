import type { Session } from '../driver/session.js'
import type { SessionPool } from '../driver/session-pool.js'
import { type Moment, thisMoment } from '../moment.js'

/** Where to ask, and what `close` waits for. */
export interface AskedPrimary {
  readonly primary: SessionPool
  readonly afterwards: Set<Promise<void>>
}

/**
 * Asks the primary for what has to be known of it before a source beside it may answer. `asked` is a moment before it was asked: the
 * wait for a connection does not make the answer older.
 */
export function askPrimary<T>(
  { primary, afterwards }: AskedPrimary,
  ask: (session: Session, asked: Moment) => Promise<T>,
): Promise<T> {
  const answer = primary.with('reserve', (session) => ask(session, thisMoment()))
  const ended: Promise<void> = answer.then(
    () => {},
    () => {},
  )
  afterwards.add(ended)
  void ended.then(() => afterwards.delete(ended))
  return answer
}
