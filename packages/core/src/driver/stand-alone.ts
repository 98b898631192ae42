import { alwaysTheSame, type Begin, type Bound } from './outgoing.js'
import { preparedAs } from './prepared-name.js'

/**
 * Without LOCAL, which would warn outside a transaction block; it still applies to this one transaction only, because each
 * begins with its default. It has to be a SET: anything that takes a snapshot comes too late.
 */
const READ_COMMITTED_SQL = "SET transaction_isolation = 'read committed'"
const READ_COMMITTED = alwaysTheSame({
  name: '',
  text: READ_COMMITTED_SQL,
  preparedAs: preparedAs('read_committed', READ_COMMITTED_SQL),
})

const LOCK_TIMEOUT_SQL = "SELECT pg_catalog.set_config('lock_timeout', $1, true)"
const lockTimeouts = new Map<number, Bound>()

/** PostgreSQL locks a statement's tables before executing it, so an earlier statement has to set a bound on that. */
function lockTimeout(lockTimeoutMs: number): Bound {
  let bound = lockTimeouts.get(lockTimeoutMs)
  if (bound === undefined) {
    const preparedName = preparedAs('lock_timeout', LOCK_TIMEOUT_SQL)
    const statement = { name: '', text: LOCK_TIMEOUT_SQL, preparedAs: preparedName }
    lockTimeouts.set(lockTimeoutMs, (bound = alwaysTheSame(statement, [String(lockTimeoutMs)])))
  }
  return bound
}

/**
 * A statement that is a transaction of its own. Statements that share a message share a transaction, without BEGIN and
 * COMMIT: the server ends it with the message, even if the statement fails.
 */
export function standAlone(statement: Bound, lockTimeoutMs: number): readonly Bound[] {
  return [READ_COMMITTED, lockTimeout(lockTimeoutMs), statement]
}

/** The same for when statements cannot share a message. */
export function beginAlone(lockTimeoutMs: number): Begin {
  const text = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = ${lockTimeoutMs}`
  return { alone: { name: '', text }, together: [] }
}
