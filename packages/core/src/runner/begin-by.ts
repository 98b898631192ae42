import { alwaysTheSame, type Begin } from '../driver/outgoing.js'
import { preparedAs } from '../driver/prepared-name.js'
import type { ResolvedPhaseSettings } from '../pipeline/settings.js'
import { qualified } from '../storage/qualified.js'

const begins = new WeakMap<ResolvedPhaseSettings, Begin>()

/** How a phase's transaction begins: written once for each phase. */
export function beginBy(settings: ResolvedPhaseSettings): Begin {
  let begin = begins.get(settings)
  if (begin === undefined) begins.set(settings, (begin = writeBegin(settings)))
  return begin
}

/** The time-outs are the server's, since only those really end a statement. */
function writeBegin({
  isolation,
  statementTimeoutMs,
  lockTimeoutMs,
  idleTimeoutMs,
}: ResolvedPhaseSettings): Begin {
  const text = `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`
  const timeouts = [statementTimeoutMs, lockTimeoutMs, idleTimeoutMs]
  return {
    alone: {
      name: 'begin',
      text:
        `${text}; SET LOCAL statement_timeout = ${statementTimeoutMs}; ` +
        `SET LOCAL lock_timeout = ${lockTimeoutMs}; SET LOCAL idle_in_transaction_session_timeout = ${idleTimeoutMs}`,
    },
    together: [
      alwaysTheSame({ name: 'begin', text, preparedAs: preparedAs('begin', text) }),
      alwaysTheSame(SET_TIMEOUTS, timeouts.map(String)),
    ],
  }
}

const TIMEOUTS_SQL = qualified(
  "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true), " +
    "set_config('idle_in_transaction_session_timeout', $3, true)",
)

/** A part of BEGIN, so far as anybody is concerned. */
const SET_TIMEOUTS = { name: '', text: TIMEOUTS_SQL, preparedAs: preparedAs('set_timeouts', TIMEOUTS_SQL) }
