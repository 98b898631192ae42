import { SERVER_SIDE_SHARE } from '../limits.js'
import { alwaysTheSame, type Begin, type Bound } from './outgoing.js'
import { PROPAGATE } from './propagate.js'
import { preparedAs } from './prepared-name.js'

/**
 * What a statement that stands alone does. `write`: it writes, and waits until that has reached the disk. `write_soon`: it
 * does not wait. A later COMMIT that waits also waits for this one, and a server that crashes before that has lost it.
 * `read`: it only reads, for which any isolation level will do.
 */
export type Alone = 'write' | 'write_soon' | 'read'

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
const UNFLUSHED = ", pg_catalog.set_config('synchronous_commit', 'off', true)"

/**
 * Of a statement that is kept prepared, PostgreSQL also keeps the plan, unless it believes that planning anew pays. On
 * partitions it always does, because it adds up the costs of all of them, of which one is read: planning then costs more
 * than twice as much as executing.
 */
const KEEP_PLANS_SQL = "pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true)"

/** PostgreSQL locks a statement's tables before executing it, so an earlier statement has to set a bound on that. */
const PLANNED_ANEW = {
  waiting: settings('lock_timeout', LOCK_TIMEOUT_SQL),
  notWaiting: settings('lock_timeout_unflushed', LOCK_TIMEOUT_SQL + UNFLUSHED),
}
const PLANNED_ONCE = {
  waiting: settings('lock_timeout_planned', `${LOCK_TIMEOUT_SQL}, ${KEEP_PLANS_SQL}`),
  notWaiting: settings(
    'lock_timeout_unflushed_planned',
    `${LOCK_TIMEOUT_SQL}${UNFLUSHED}, ${KEEP_PLANS_SQL}`,
  ),
}

/** The same inside a transaction, for the statements that follow. The application's own queries must come before it. */
export const KEEP_PLANS = alwaysTheSame({
  name: '',
  text: `SELECT ${KEEP_PLANS_SQL}`,
  preparedAs: preparedAs('keep_plans', `SELECT ${KEEP_PLANS_SQL}`),
})

function settings(name: string, text: string): (lockTimeoutMs: number) => Bound {
  const known = new Map<number, Bound>()
  const statement = { name: '', text, preparedAs: preparedAs(name, text) }
  return (lockTimeoutMs) => {
    let bound = known.get(lockTimeoutMs)
    if (bound === undefined)
      known.set(lockTimeoutMs, (bound = alwaysTheSame(statement, [String(lockTimeoutMs)])))
    return bound
  }
}

/**
 * A statement that is a transaction of its own. Statements that share a message share a transaction, without BEGIN and
 * COMMIT: the server ends it with the message, even if the statement fails.
 */
export function standAlone(
  statement: Bound,
  lockTimeoutMs: number,
  does: Alone,
  keepsPlans = false,
): readonly Bound[] {
  const { waiting, notWaiting } = keepsPlans ? PLANNED_ONCE : PLANNED_ANEW
  switch (does) {
    case 'write':
      return [READ_COMMITTED, waiting(lockTimeoutMs), statement]
    case 'write_soon':
      return [READ_COMMITTED, notWaiting(lockTimeoutMs), statement]
    case 'read':
      return [waiting(lockTimeoutMs), statement]
  }
}

/** The same for when statements cannot share a message. */
export function beginAlone(lockTimeoutMs: number, does: Alone): Begin {
  const text =
    `${BEGIN_SQL}; SET LOCAL lock_timeout = ${lockTimeoutMs}` +
    (does === 'write_soon' ? '; SET LOCAL synchronous_commit = off' : '')
  return { alone: { name: '', text }, together: [] }
}

const BEGIN_SQL = 'BEGIN ISOLATION LEVEL READ COMMITTED'

/**
 * The same where other servers have to be told: settings reach them only as SET LOCAL, and only in a transaction block. They always
 * wait for the disk, because the flush that a promise needs later (`write_out`) would not reach them.
 */
export function beginOverServers(lockTimeoutMs: number, deadlineMs: number): Begin {
  const parts = [
    BEGIN_SQL,
    PROPAGATE,
    `SET LOCAL lock_timeout = ${lockTimeoutMs}`,
    `SET LOCAL statement_timeout = ${serverDeadlineMs(deadlineMs)}`,
  ]
  const together = parts.map((text) => alwaysTheSame({ name: '', text, preparedAs: preparedAs('set', text) }))
  return { alone: { name: '', text: parts.join('; ') }, together }
}

/** Where other servers are read: one that does not answer must not cost the connection to this one. */
export function readOverServers(statement: Bound, deadlineMs: number): readonly Bound[] {
  return [alwaysTheSame(STATEMENT_TIMEOUT, [String(serverDeadlineMs(deadlineMs))]), statement]
}

const STATEMENT_TIMEOUT_SQL = "SELECT pg_catalog.set_config('statement_timeout', $1, true)"
const STATEMENT_TIMEOUT = {
  name: '',
  text: STATEMENT_TIMEOUT_SQL,
  preparedAs: preparedAs('statement_timeout', STATEMENT_TIMEOUT_SQL),
}

/** The server gives up first. */
const serverDeadlineMs = (deadlineMs: number): number => Math.ceil(deadlineMs * SERVER_SIDE_SHARE)
