import { announce } from '../announce/announce.js'
import { PawlError } from '../errors.js'
import { MAX_KEPT_RESULT_BYTES } from '../limits.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import type { Intent } from '../storage/keys/key-row.js'

/** What a call returned, in a form that can be kept. */
export interface CallResult {
  /** Returns a fresh copy each time, so that `settle` sees the same now, on its second try, and after a crash. */
  readonly read: () => unknown
  /** Null if it is not JSON, or far too large: then it lives only as long as this process. It is too late for an error. */
  readonly intent: Intent | null
  readonly bytes: number
}

export function callResult(phase: ForeignPhase, value: unknown): CallResult {
  try {
    const json = JSON.stringify(value) ?? 'null'
    const bytes = Buffer.byteLength(json)
    const read = (): unknown => JSON.parse(json) as unknown
    if (bytes > MAX_KEPT_RESULT_BYTES) return { read, intent: null, bytes }
    const intent: Intent = { kind: 'called', phase: phase.name, result: JSON.parse(json) as JsonValue }
    return { read, intent, bytes }
  } catch (error) {
    announce('pawl:warning', () => ({
      message: `the result of call in phase '${phase.name}' is not JSON`,
      error,
    }))
    return { read: () => value, intent: null, bytes: 0 }
  }
}

/** Returns the error for a result over the cap; null if it is within. */
export function tooLargeResult(
  phase: ForeignPhase,
  { bytes }: CallResult,
  capBytes: number,
): PawlError | null {
  if (bytes <= capBytes) return null
  return new PawlError(
    'PAWL_TOO_LARGE',
    `The result of call in phase '${phase.name}' is ${bytes} bytes; the cap is ${capBytes}. Have call return only what ` +
      'settle needs, such as an id, or raise caps.resultBytes of createEngine.',
  )
}
