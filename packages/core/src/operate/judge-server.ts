import { CLOCK_DRIFT_MS, SHORT_SERVER_TIMEOUT_MS } from '../limits.js'
import type { ServerFacts } from '../storage/schema/read-server.js'
import { failing, ok, orOk, roughly, warning } from './finding.js'
import { isSupported, OLDEST_POSTGRES } from '../storage/schema/supported-server.js'
import type { SessionFacts } from '../storage/schema/read-session.js'
import type { Finding } from './operator.js'

type Settings = ServerFacts['settings']

export function judgeVersion(facts: SessionFacts): Finding {
  const is = `The server is PostgreSQL ${facts.serverVersion}`
  if (isSupported(facts)) return ok('server', `${is}.`)
  return failing(
    'server',
    `${is}; Pawl is not tested with anything before ${OLDEST_POSTGRES}.`,
    `Upgrade it to ${OLDEST_POSTGRES} or later.`,
  )
}

/** Only a note: leases and expiries go by the database's clock alone. */
export function judgeClock(databaseMs: number, askedMs: number, answeredMs: number): Finding {
  const early = askedMs - databaseMs
  const late = databaseMs - answeredMs
  const apartMs = Math.max(0, early, late)
  if (apartMs < CLOCK_DRIFT_MS) return ok('clock', `This machine's clock and the database's agree.`)
  const where = early > 0 ? 'behind' : 'ahead of'
  return ok(
    'clock',
    `The database's clock is ${roughly(apartMs)} ${where} this machine's. That is harmless, because leases depend on the ` +
      `database's clock alone; but times in logs cannot be compared with times in tables.`,
  )
}

export function judgeDurability(settings: Settings): Finding[] {
  const lost =
    'a crash of the server can lose acknowledged commits, and a phase that had committed then runs again'
  return orOk(
    [
      settings['fsync'] === 'off'
        ? failing(
            'durability',
            `fsync is off: ${lost}.`,
            'Set fsync = on; if the server has crashed since it was off, restore from a backup.',
          )
        : null,
      settings['synchronous_commit'] === 'off'
        ? failing(
            'durability',
            `synchronous_commit is off: ${lost}.`,
            'Set synchronous_commit = on, for the database, the role or the pool of the application.',
          )
        : null,
      settings['full_page_writes'] === 'off'
        ? warning(
            'durability',
            'full_page_writes is off: a crash of the server can leave torn pages behind.',
            'Set full_page_writes = on, unless the file system rules torn pages out.',
          )
        : null,
    ],
    ok('durability', `fsync is on, synchronous_commit is ${settings['synchronous_commit']}.`),
  )
}

export function judgeIsolation(settings: Settings, inRecovery: boolean): Finding[] {
  const isolation = settings['default_transaction_isolation'] ?? ''
  return orOk(
    [
      inRecovery
        ? failing('isolation', 'The server is a replica: nothing can be written.', 'Connect to the primary.')
        : null,
      settings['default_transaction_read_only'] === 'on'
        ? failing(
            'isolation',
            'default_transaction_read_only is on: nothing can be written.',
            'Set it off, for the database, the role or the pool of the application.',
          )
        : null,
      isolation === 'read committed'
        ? null
        : warning(
            'isolation',
            `default_transaction_isolation is ${isolation}: concurrent reservations of one key have to be tried again.`,
            `Leave the default at 'read committed', and set isolation for the phases that need more.`,
          ),
    ],
    ok('isolation', 'Transactions are READ COMMITTED by default, and the server takes writes.'),
  )
}

/** The framework's own statements run under the server's time-outs; phases set their own. */
export function judgeTimeouts(settings: Settings): Finding[] {
  const wrong = (['statement_timeout', 'transaction_timeout'] as const).map((name) => {
    const ms = Number(settings[name] ?? 0)
    if (ms === 0 || ms >= SHORT_SERVER_TIMEOUT_MS) return null
    return warning(
      'timeouts',
      `${name} is ${ms} ms: it ends statements that are slow only because the server is busy.`,
      `Raise ${name} to ${SHORT_SERVER_TIMEOUT_MS} ms or more, or to 0. Phases are bounded by their own settings.`,
    )
  })
  return orOk(wrong, ok('timeouts', `No time-out of the server is short enough to do harm.`))
}

export function judgePool(
  facts: ServerFacts,
  pool: { readonly max: number | undefined; readonly open: number },
): Finding {
  const setting = (name: string): number => Number(facts.settings[name] ?? 0)
  const max = setting('max_connections')
  const reserved = setting('superuser_reserved_connections') + setting('reserved_connections')
  const poolMax = pool.max ?? 10
  const free = max - reserved - facts.connections
  const wanted = Math.max(0, poolMax - pool.open)
  const detail =
    `${facts.connections} of ${max - reserved} connections ${facts.connections === 1 ? 'is' : 'are'} in use, ${facts.connectionsHere} of them to this database. ` +
    `This pool has ${pool.open} and may take ${wanted} more.`
  if (wanted <= free) return ok('pool', detail)
  return warning(
    'pool',
    detail,
    `Raise max_connections, lower the pools' max, or put a pooler in between. Every process has a pool of its own.`,
  )
}
