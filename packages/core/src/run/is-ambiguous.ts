import { evidenceOf } from './call-evidence.js'

/**
 * Whether an error of a call leaves open whether the call was executed. An error is ambiguous unless the provider's answer,
 * or the phase, says that it is an answer: a list of ambiguous errors would never be complete.
 */
export function isAmbiguous(error: unknown, declaredAnswer: boolean): boolean {
  const evidence = readEvidence(error)
  if (evidence === null) return !declaredAnswer
  // A declared base class also covers connection errors, which are never answers.
  if (evidence.noAnswer) return true
  if (declaredAnswer) return false
  const { statuses, grpcCodes, keyReused, bug } = evidence
  if (keyReused || bug || statuses.length + grpcCodes.length === 0) return true
  return !(statuses.every(isFinalStatus) && grpcCodes.every((code) => FINAL_GRPC_CODES.has(code)))
}

/** Whether the provider refused the call for good, so that the same request will be refused again. */
export function isRefusal(error: unknown): boolean {
  const evidence = readEvidence(error)
  if (evidence === null || evidence.noAnswer) return false
  const { statuses, grpcCodes } = evidence
  if (!(statuses.every(isFinalStatus) && grpcCodes.every((code) => FINAL_GRPC_CODES.has(code)))) return false
  return statuses.length + grpcCodes.length > 0
}

/**
 * 4xx, except time-out (408), conflict (409: a request under this key is being executed, or was), too early (425) and too
 * many (429).
 */
function isFinalStatus(status: number): boolean {
  return status >= 400 && status < 500 && !NOT_FINAL.has(status)
}

const NOT_FINAL = new Set([408, 409, 425, 429])

/**
 * INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, UNAUTHENTICATED. Not
 * ALREADY_EXISTS, which an earlier attempt of this very call may have caused.
 */
const FINAL_GRPC_CODES = new Set([3, 5, 7, 9, 11, 12, 16])

/** Returns null if the error cannot be read, such as a proxy that throws. */
function readEvidence(error: unknown): ReturnType<typeof evidenceOf> | null {
  try {
    return evidenceOf(error)
  } catch {
    return null
  }
}
