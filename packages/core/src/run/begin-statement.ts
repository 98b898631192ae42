import { alwaysTheSame, type Begin } from '../driver/outgoing.js'
import { preparedAs } from '../driver/prepared-name.js'
import type { ResolvedPhaseSettings } from '../pipeline/settings.js'
import { IN_PHASE } from '../storage/keys/held-or-fail.js'
import { qualified } from '../storage/qualified.js'

const begins = new WeakMap<ResolvedPhaseSettings, Begin>()

/** Phases that switch to another role in their transactions: learnt when one of them could not write its recovery point. */
const takesRole = new WeakSet<ResolvedPhaseSettings>()

/** Returns how a phase's transaction begins, written once for each phase. */
export function beginStatement(settings: ResolvedPhaseSettings): Begin {
  let begin = begins.get(settings)
  if (begin === undefined) begins.set(settings, (begin = writeBegin(settings)))
  return begin
}

/** Whether a phase's role is remembered when the phase begins, and taken again before its recovery point is written. */
export function remembersRole(settings: ResolvedPhaseSettings): boolean {
  return takesRole.has(settings)
}

/** Costs a statement at the beginning and one at the end, so it is only for phases that need it. */
export function rememberRole(settings: ResolvedPhaseSettings): void {
  takesRole.add(settings)
  begins.delete(settings)
}

const REMEMBER_ROLE_SQL =
  "SELECT pg_catalog.set_config('pawl.role', pg_catalog.current_setting('role'), true)"

/** Undoes a SET ROLE of the phase, which is usual with row-level security: that role may have no access to our tables. */
export const TAKE_ROLE_AGAIN = alwaysTheSame({
  name: '',
  text: "SELECT pg_catalog.set_config('role', pg_catalog.current_setting('pawl.role'), true)",
})

/**
 * What a phase, or a trigger, has set for its own rows does not apply to a declaration: a call must not be made before the
 * disk knows about it.
 */
export const WAIT_FOR_DISK = alwaysTheSame({
  name: '',
  text: 'SET LOCAL synchronous_commit TO DEFAULT',
  preparedAs: preparedAs('wait_for_disk', 'SET LOCAL synchronous_commit TO DEFAULT'),
})

/** The time-outs are set on the server, since only those really end a statement. */
function writeBegin(settings: ResolvedPhaseSettings): Begin {
  const { isolation, statementTimeoutMs, lockTimeoutMs, idleTimeoutMs } = settings
  const remember = remembersRole(settings)
  const text = `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`
  const timeouts = [statementTimeoutMs, lockTimeoutMs, idleTimeoutMs]
  return {
    alone: {
      name: 'begin',
      text:
        `${text}; SET LOCAL statement_timeout = ${statementTimeoutMs}; ` +
        `SET LOCAL lock_timeout = ${lockTimeoutMs}; SET LOCAL idle_in_transaction_session_timeout = ${idleTimeoutMs}; ` +
        `SET LOCAL ${IN_PHASE} = 'yes'` +
        (remember ? `; ${REMEMBER_ROLE_SQL}` : ''),
    },
    together: [
      alwaysTheSame({ name: 'begin', text, preparedAs: preparedAs('begin', text) }),
      alwaysTheSame(SET_TIMEOUTS, timeouts.map(String)),
      ...(remember ? [alwaysTheSame({ name: '', text: REMEMBER_ROLE_SQL })] : []),
    ],
  }
}

const TIMEOUTS_SQL = qualified(
  "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true), " +
    `set_config('idle_in_transaction_session_timeout', $3, true), set_config('${IN_PHASE}', 'yes', true)`,
)

/** To tests and traces it is a part of BEGIN. */
const SET_TIMEOUTS = { name: '', text: TIMEOUTS_SQL, preparedAs: preparedAs('set_timeouts', TIMEOUTS_SQL) }
