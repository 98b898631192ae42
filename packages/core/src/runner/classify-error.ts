import { endsSession, isSocketError, sqlStateOf } from '../driver/postgres-error.js'
import { PawlError, type PawlErrorCode } from '../errors.js'
import { isTransientStatus } from '../pipeline/directive.js'

/**
 * What an error means for the phase that met it:
 * `conflict`: its transaction did not commit, and trying it again at once may well succeed;
 * `transient`: it may succeed later, and nothing is said about a call's outcome;
 * `unknown`: anything else, counted and capped.
 */
export type ErrorClass = 'conflict' | 'transient' | 'unknown'

/** Serialization failure, deadlock, lock not available. */
const CONFLICT_STATES = new Set(['40001', '40P01', '55P03'])
/** Query cancelled (a time-out), read-only server after a failover, object in use. */
const TRANSIENT_STATES = new Set(['57014', '25006', '55006'])

const CONFLICT_CODES = new Set<PawlErrorCode>(['PAWL_CONNECTION_LOST'])
const TRANSIENT_CODES = new Set<PawlErrorCode>([
  'PAWL_NO_CONNECTION',
  'PAWL_CALL_TIMEOUT',
  'PAWL_CLOSING',
  'PAWL_LEASE_LOST',
  'PAWL_AMBIGUOUS_RESPONSE',
])

/** Time-outs of undici and fetch; aborts, whoever asked for them. */
const TRANSIENT_NAMES = new Set([
  'AbortError',
  'TimeoutError',
  'ConnectTimeoutError',
  'HeadersTimeoutError',
  'BodyTimeoutError',
  'SocketError',
])

export function classifyError(error: unknown): ErrorClass {
  if (error instanceof PawlError) {
    if (CONFLICT_CODES.has(error.code)) return 'conflict'
    if (TRANSIENT_CODES.has(error.code)) return 'transient'
    // A swallowed error is as harmless or harmful as the error it was.
    return error.code === 'PAWL_TRANSACTION_ABORTED' && error.cause != null
      ? classifyError(error.cause)
      : 'unknown'
  }
  const sqlState = sqlStateOf(error)
  if (sqlState !== null) return classifySqlState(sqlState)
  return isTransient(error) ? 'transient' : 'unknown'
}

function classifySqlState(sqlState: string): ErrorClass {
  if (CONFLICT_STATES.has(sqlState) || endsSession(sqlState)) return 'conflict'
  // Class 53: out of connections, memory, disk.
  return TRANSIENT_STATES.has(sqlState) || sqlState.startsWith('53') ? 'transient' : 'unknown'
}

/** Deeper than anybody wraps errors; causes can also go in a circle. */
const MAX_CAUSES = 8

function isTransient(error: unknown, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > MAX_CAUSES) return false
  if (isSocketError(error)) return true
  const { name, status, statusCode, cause } = error as Record<string, unknown>
  if (typeof name === 'string' && TRANSIENT_NAMES.has(name)) return true
  const httpStatus = status ?? statusCode
  if (typeof httpStatus === 'number' && isTransientStatus(httpStatus)) return true
  // fetch says "fetch failed" and hides the socket's error behind it.
  return isTransient(cause, depth + 1)
}
