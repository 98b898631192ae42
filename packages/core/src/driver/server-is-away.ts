import { isConnectionLost, isPawlError } from '../errors.js'
import { NoConnectionError } from './no-connection.js'
import { sqlStateOf } from './postgres-error.js'

/** The server, or a pooler in front of it, shuts down, starts or has crashed. */
const AWAY = new Set(['57P01', '57P02', '57P03'])
/** Connection exceptions: what poolers report about the server behind them. */
const CONNECTION_EXCEPTION = '08'

/**
 * Whether an error shows that the server cannot be reached. A server that refuses what it is asked (a statement, a password,
 * one connection more, a write after a failover that left it read-only) has answered, and so has one that a lock or a
 * time-out of its own kept from doing it. `overServers`: the one that we talk to then also reports connections of its own.
 */
export function serverIsAway(error: unknown, overServers: boolean): boolean {
  if (error instanceof NoConnectionError) return error.reason === 'away'
  const sqlState = saidBy(error)
  return sqlState === null ? isConnectionLost(error) : saysAway(sqlState, overServers)
}

/** Whether an error is the answer of a server that is there. */
export function serverIsThere(error: unknown, overServers: boolean): boolean {
  const sqlState = saidBy(error)
  return sqlState !== null && !saysAway(sqlState, overServers)
}

/** What the server said, if it did: the error itself, or what broke the connection or kept it from being opened. */
function saidBy(error: unknown): string | null {
  return sqlStateOf(isPawlError(error) ? error.cause : error)
}

/** Whether a server that says this, in answer to whatever it was asked, is not to be had for now. */
export function saysAway(sqlState: string, overServers: boolean): boolean {
  return AWAY.has(sqlState) || (sqlState.startsWith(CONNECTION_EXCEPTION) && !overServers)
}
