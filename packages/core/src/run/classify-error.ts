import { endsSession, sqlStateOf } from '../driver/postgres-error.js'
import { isPawlError, type PawlErrorCode } from '../errors.js'
import { isTransientStatus } from '../pipeline/directive.js'
import { evidenceOf } from './call-evidence.js'

/**
 * What an error means for the phase that met it:
 * `conflict`: its transaction did not commit, and trying it again at once may well succeed;
 * `transient`: it may succeed later, and nothing is said about a call's outcome;
 * `unknown`: anything else, counted and capped.
 */
export type ErrorClass = 'conflict' | 'transient' | 'unknown'

/** Serialization failure, deadlock, lock not available. */
const CONFLICT_STATES = new Set(['40001', '40P01', '55P03'])
/**
 * Query cancelled (a time-out), read-only server after a failover, object in use, and an internal error, which is how Citus
 * reports a server that went away in the middle.
 */
const TRANSIENT_STATES = new Set(['57014', '25006', '55006', 'XX000'])

const CONFLICT_CODES = new Set<PawlErrorCode>(['PAWL_CONNECTION_LOST'])
const TRANSIENT_CODES = new Set<PawlErrorCode>([
  'PAWL_NO_CONNECTION',
  'PAWL_CALL_TIMEOUT',
  'PAWL_PHASE_TIMEOUT',
  'PAWL_CLOSING',
  'PAWL_LEASE_LOST',
])

export function classifyError(error: unknown): ErrorClass {
  try {
    return classify(error)
  } catch {
    // Reading it throws: a proxy, or a getter.
    return 'unknown'
  }
}

function classify(error: unknown): ErrorClass {
  if (isPawlError(error)) {
    if (CONFLICT_CODES.has(error.code)) return 'conflict'
    if (TRANSIENT_CODES.has(error.code)) return 'transient'
    if (error.cause == null) return 'unknown'
    // A swallowed error is as harmless or harmful as the error itself. The same holds for an error whose final answer by
    // onError was refused.
    if (error.code === 'PAWL_TRANSACTION_ABORTED') return classifyError(error.cause)
    return error.code === 'PAWL_AMBIGUOUS_RESPONSE' ? classifyCallError(error.cause) : 'unknown'
  }
  const sqlState = sqlStateOf(error)
  if (sqlState !== null) return classifySqlState(sqlState)
  return isTransient(error) ? 'transient' : 'unknown'
}

function classifySqlState(sqlState: string): ErrorClass {
  if (CONFLICT_STATES.has(sqlState) || endsSession(sqlState)) return 'conflict'
  // Class 08: a server behind this one is away (08P01 is about the statement). Class 53: out of connections, memory, disk.
  return TRANSIENT_STATES.has(sqlState) || /^(?:08(?!P)|53)/.test(sqlState) ? 'transient' : 'unknown'
}

/** What an error means for the attempts of a call: as `classifyError`, but a conflict at the provider passes, too. */
export function classifyCallError(error: unknown): ErrorClass {
  const asUsual = classifyError(error)
  if (asUsual !== 'unknown' || isPawlError(error)) return asUsual
  return isTransient(error, HTTP_CONFLICT) ? 'transient' : 'unknown'
}

/** A request under the same idempotency key is being executed: when it is done, its answer is available. */
const HTTP_CONFLICT = 409

/** RESOURCE_EXHAUSTED, ABORTED. */
const TRANSIENT_GRPC_CODES = new Set([8, 10])

function isTransient(error: unknown, alsoTransient?: number): boolean {
  try {
    const { noAnswer, statuses, ownStatuses, grpcCodes } = evidenceOf(error)
    return (
      noAnswer ||
      [...statuses, ...ownStatuses].some((status) => isTransientStatus(status) || status === alsoTransient) ||
      grpcCodes.some((code) => TRANSIENT_GRPC_CODES.has(code))
    )
  } catch {
    return false
  }
}
