import pg from 'pg'
import { KitError } from '../kit-error.js'

/** Options that say nothing about the server, or that whoever creates the pool chooses. */
const NOT_OF_THE_CONNECTION = [
  'connectionString',
  'application_name',
  'Client',
  'Promise',
  'log',
  'max',
  'min',
  'maxUses',
  'maxLifetimeSeconds',
  'allowExitOnIdle',
] as const

/** What a client makes of its options, its connection string and the environment. */
interface ConnectionParameters {
  readonly user: string | undefined
  readonly password: pg.ClientConfig['password']
  readonly host: string | undefined
  readonly port: number
  readonly database: string | undefined
  readonly ssl: pg.ClientConfig['ssl']
  readonly options: string | undefined
  readonly client_encoding: string | undefined
  readonly statement_timeout: number | false
  readonly lock_timeout: number | false
  readonly idle_in_transaction_session_timeout: number | false
  readonly query_timeout: number | false
}

/**
 * Returns how to reach the server that a pool reaches, as the same user. The connection string is taken apart, because what it
 * contains would win over the kit's own `options` and `application_name`.
 */
export function connectionOf(pool: pg.Pool): pg.PoolConfig {
  const given = (pool as Partial<pg.Pool> | undefined)?.options
  if (typeof given !== 'object' || given === null) {
    throw new KitError(
      'PAWL_KIT_INVALID_OPTION',
      'pool is not a pg.Pool. Pass one, or null for a PostgreSQL of the kit.',
    )
  }
  // The pool's password is not enumerable.
  const options: pg.PoolConfig = { ...given, password: given.password }
  const parameters = resolve(options)
  const connection: Record<string, unknown> = { ...options }
  for (const name of NOT_OF_THE_CONNECTION) delete connection[name]
  // A stream that already exists belongs to one client. A function makes a new one for each.
  if (typeof options.stream !== 'function') delete connection['stream']
  return {
    ...connection,
    user: parameters.user,
    password: parameters.password,
    host: parameters.host,
    port: parameters.port,
    database: parameters.database,
    ssl: parameters.ssl,
    options: parameters.options,
    client_encoding: parameters.client_encoding,
    statement_timeout: parameters.statement_timeout,
    lock_timeout: parameters.lock_timeout || undefined,
    idle_in_transaction_session_timeout: parameters.idle_in_transaction_session_timeout || undefined,
    query_timeout: parameters.query_timeout || undefined,
  }
}

/** A client that never connects knows best what the options mean. */
function resolve(options: pg.PoolConfig): ConnectionParameters {
  const { stream: _stream, ...others } = options
  const client = new pg.Client(others)
  return (client as unknown as { connectionParameters: ConnectionParameters }).connectionParameters
}

/** Returns the same connection with more server settings. Later ones win. */
export function withSettings(
  connection: pg.PoolConfig,
  settings: Readonly<Record<string, string>>,
): pg.PoolConfig {
  const flags = Object.entries(settings).map(([name, value]) => `-c ${name}=${escapeOption(value)}`)
  return { ...connection, options: [connection.options, ...flags].filter(Boolean).join(' ') }
}

/** White space separates options, unless a backslash escapes it. */
function escapeOption(value: string): string {
  return value.replaceAll(/[\\\s]/g, '\\$&')
}

/** Returns the same connection, with a search path that the application's own hook cannot change. */
export function withSearchPath(connection: pg.PoolConfig, searchPath: string): pg.PoolConfig {
  const config = withSettings(connection, { search_path: searchPath })
  // The pool awaits what it returns, though its type does not say so.
  const onConnect: ((client: pg.ClientBase) => unknown) | undefined = connection.onConnect
  if (onConnect === undefined) return config
  const hook: (client: pg.ClientBase) => unknown = async (client) => {
    await onConnect(client)
    await client.query(`SELECT set_config('search_path', $1, false)`, [searchPath])
  }
  return { ...config, onConnect: hook }
}
