import { announce } from '../announce/announce.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import type { Intent } from '../storage/key-row.js'

/** What a call returned, in the form it can be kept in. */
export interface KeptResult {
  /** A fresh copy each time, so that `settle` sees the same now, at its second try, and after a crash. */
  readonly read: () => unknown
  /** Null where it is not JSON: then it lives only as long as this process. It is too late for an error. */
  readonly intent: Intent | null
  readonly bytes: number
}

export function keepResult(phase: ForeignPhase, value: unknown): KeptResult {
  try {
    const json = JSON.stringify(value) ?? 'null'
    const intent: Intent = { kind: 'called', phase: phase.name, result: JSON.parse(json) as JsonValue }
    return { read: () => JSON.parse(json) as unknown, intent, bytes: Buffer.byteLength(json) }
  } catch (error) {
    announce('pawl:warning', () => ({
      message: `the result of call in phase '${phase.name}' is not JSON`,
      error,
    }))
    return { read: () => value, intent: null, bytes: 0 }
  }
}
