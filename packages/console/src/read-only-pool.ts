import pg from 'pg'
import { READ_CONNECTIONS, READ_IDLE_MS, READ_LOCK_MS, READ_STATEMENT_MS } from './limits.js'

/** Said when a connection is opened, so that no statement can be sent before it holds. */
const SETTINGS = `-c default_transaction_read_only=on -c statement_timeout=${READ_STATEMENT_MS} -c lock_timeout=${READ_LOCK_MS}`

interface Setting {
  readonly default_transaction_read_only: string
}

type Verify = (client: pg.PoolClient, done: (error?: Error) => void) => void

/**
 * A pool of its own with connections like those of another, on which every transaction is read-only: a mistake of the console cannot
 * change anything, and its reads never take a connection that a request waits for. The other's hooks for new connections apply.
 */
export function readOnlyPoolLike(pool: pg.Pool): pg.Pool {
  const config = pool.options as pg.PoolConfig & { readonly verify?: Verify }
  const { Client } = pool as unknown as { readonly Client: typeof pg.Client }
  const reading = new pg.Pool({
    ...config,
    // Pools hide it, so that nothing prints it by mistake.
    ...(config.password !== undefined && { password: config.password }),
    ...withSettings(config),
    // Beside the startup options, a pool's own count more: those of the application may be far longer.
    statement_timeout: READ_STATEMENT_MS,
    lock_timeout: READ_LOCK_MS,
    Client,
    application_name: 'pawl-console',
    max: READ_CONNECTIONS,
    min: 0,
    idleTimeoutMillis: READ_IDLE_MS,
    allowExitOnIdle: true,
    verify: verifying(config.verify),
  })
  reading.on('connect', (client) => pool.emit('connect', client))
  // A connection that breaks while nobody uses it is replaced by the next query.
  reading.on('error', () => {})
  return reading
}

/** A pooler may ignore what is said when a connection is opened, and a hook may undo it. */
function verifying(before: Verify | undefined): Verify {
  return (client, done) => {
    const check = (): void => {
      client.query<Setting>('SHOW default_transaction_read_only', (error, result) => {
        if (error) done(error)
        else done(result.rows[0]?.default_transaction_read_only === 'on' ? undefined : new NotReadOnlyError())
      })
    }
    if (before === undefined) check()
    else before(client, (error) => (error == null ? check() : done(error)))
  }
}

/** Reads would go through connections that can write. */
class NotReadOnlyError extends Error {
  override readonly name = 'NotReadOnlyError'

  constructor() {
    super(
      'The connections for reading are not read-only: a pooler in between, or a hook of the pool, has dropped default_transaction_read_only. Give the console a readPool whose role may only read.',
    )
  }
}

const TIMEOUTS = ['statement_timeout', 'lock_timeout'] as const
const OURS = [...TIMEOUTS, 'options'] as const

/** What a URL says counts more than an option beside it, and an option more than the environment. */
function withSettings({ connectionString, options }: pg.PoolConfig): pg.PoolConfig {
  const beside = { options: withOurs(options ?? process.env['PGOPTIONS']) }
  if (connectionString === undefined || !URL.canParse(connectionString)) return beside
  const url = new URL(connectionString)
  const { searchParams } = url
  if (!OURS.some((name) => searchParams.has(name))) return beside
  for (const name of TIMEOUTS) searchParams.delete(name)
  const given = searchParams.get('options')
  if (given === null) return { ...beside, connectionString: url.href }
  searchParams.set('options', withOurs(given))
  return { connectionString: url.href }
}

function withOurs(options: string | null | undefined): string {
  return options ? `${options} ${SETTINGS}` : SETTINGS
}
