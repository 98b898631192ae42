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
  'PAWL_PHASE_TIMEOUT',
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

/** DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, UNAVAILABLE. */
const TRANSIENT_GRPC_CODES = new Set([4, 8, 10, 14])

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
  const { name, message, code, cause } = error as Record<string, unknown>
  if (typeof name === 'string' && TRANSIENT_NAMES.has(name)) return true
  if (typeof code === 'number' && TRANSIENT_GRPC_CODES.has(code)) return true
  const httpStatus = httpStatusOf(error)
  if (httpStatus !== null && isTransientStatus(httpStatus)) return true
  // fetch says this of everything that kept it from an answer, and hides the socket's error behind it.
  if (name === 'TypeError' && message === 'fetch failed') return true
  return isTransient(cause, depth + 1)
}

/** Where the well-known HTTP clients keep the status of an answer that they throw: fetch wrappers, axios, AWS. */
function httpStatusOf(error: object): number | null {
  const { status, statusCode, response, $metadata } = error as Record<string, unknown>
  const { status: axios, statusCode: got } = (response ?? {}) as Record<string, unknown>
  const { httpStatusCode: aws } = ($metadata ?? {}) as Record<string, unknown>
  const found = [status, statusCode, axios, got, aws].find((value) => typeof value === 'number')
  return found ?? null
}

/**
 * Whether an error of a call leaves open if the call was executed. Errors of JavaScript itself do: they come from a bug
 * or an answer that could not be read, and the request may long have been sent.
 */
export function isAmbiguous(error: unknown): boolean {
  if (classifyError(error) !== 'unknown') return true
  return JAVASCRIPT_ERRORS.some((kind) => error instanceof kind)
}

const JAVASCRIPT_ERRORS = [TypeError, SyntaxError, RangeError, ReferenceError]
