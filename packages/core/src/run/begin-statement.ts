import { alwaysTheSame, type Begin, type Bound } from '../driver/outgoing.js'
import { preparedAs } from '../driver/prepared-name.js'
import { PROPAGATE } from '../driver/propagate.js'
import type { Spread } from '../driver/spread.js'
import type { ResolvedPhaseSettings } from '../pipeline/settings.js'
import { IN_PHASE } from '../storage/keys/held-or-fail.js'
import { qualified } from '../storage/qualified.js'

const begins = {
  one: new WeakMap<ResolvedPhaseSettings, Begin>(),
  many: new WeakMap<ResolvedPhaseSettings, Begin>(),
}

/** Phases that switch to another role in their transactions: learnt when one of them could not write its recovery point. */
const takesRole = new WeakSet<ResolvedPhaseSettings>()

/** Returns how a phase's transaction begins, written once for each phase. */
export function beginStatement(settings: ResolvedPhaseSettings, { overServers }: Spread): Begin {
  const written = begins[overServers ? 'many' : 'one']
  let begin = written.get(settings)
  if (begin === undefined)
    written.set(settings, (begin = overServers ? writeBeginOverServers(settings) : writeBegin(settings)))
  return begin
}

/** Whether a phase's role is remembered when the phase begins, and taken again before its recovery point is written. */
export function remembersRole(settings: ResolvedPhaseSettings): boolean {
  return takesRole.has(settings)
}

/** Costs a statement at the beginning and one at the end, so it is only for phases that need it. */
export function rememberRole(settings: ResolvedPhaseSettings): void {
  takesRole.add(settings)
  begins.one.delete(settings)
  begins.many.delete(settings)
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

const beginSql = ({ isolation }: ResolvedPhaseSettings): string =>
  `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`

const setLocals = ({ statementTimeoutMs, lockTimeoutMs, idleTimeoutMs }: ResolvedPhaseSettings): string[] => [
  `SET LOCAL statement_timeout = ${statementTimeoutMs}`,
  `SET LOCAL lock_timeout = ${lockTimeoutMs}`,
  `SET LOCAL idle_in_transaction_session_timeout = ${idleTimeoutMs}`,
  `SET LOCAL ${IN_PHASE} = 'yes'`,
]

/** The time-outs are set on the server, since only those really end a statement. */
function writeBegin(settings: ResolvedPhaseSettings): Begin {
  const { statementTimeoutMs, lockTimeoutMs, idleTimeoutMs } = settings
  const remember = remembersRole(settings)
  const text = beginSql(settings)
  const timeouts = [statementTimeoutMs, lockTimeoutMs, idleTimeoutMs]
  return {
    alone: {
      name: 'begin',
      text: [text, ...setLocals(settings), ...(remember ? [REMEMBER_ROLE_SQL] : [])].join('; '),
    },
    together: [
      alwaysTheSame({ name: 'begin', text, preparedAs: preparedAs('begin', text) }),
      alwaysTheSame(SET_TIMEOUTS, timeouts.map(String)),
      ...(remember ? [alwaysTheSame({ name: '', text: REMEMBER_ROLE_SQL })] : []),
    ],
  }
}

const part = (name: string, text: string): Bound =>
  alwaysTheSame({ name, text, preparedAs: preparedAs('set', text) })

/** All of them as SET LOCAL, which is what reaches the servers behind the one that we talk to. */
function writeBeginOverServers(settings: ResolvedPhaseSettings): Begin {
  const begin = beginSql(settings)
  const settingsSql = [
    PROPAGATE,
    ...setLocals(settings),
    ...(remembersRole(settings) ? [REMEMBER_ROLE_SQL] : []),
  ]
  return {
    alone: { name: 'begin', text: [begin, ...settingsSql].join('; ') },
    together: [part('begin', begin), ...settingsSql.map((text) => part('', text))],
  }
}

const TIMEOUTS_SQL = qualified(
  "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true), " +
    `set_config('idle_in_transaction_session_timeout', $3, true), set_config('${IN_PHASE}', 'yes', true)`,
)

/** To tests and traces it is a part of BEGIN. */
const SET_TIMEOUTS = { name: '', text: TIMEOUTS_SQL, preparedAs: preparedAs('set_timeouts', TIMEOUTS_SQL) }
