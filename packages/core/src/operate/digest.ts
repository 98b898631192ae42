import type { JsonValue } from '../pipeline/json-value.js'
import { sha256 } from '../sha256.js'

/** Shows whether two values were the same without keeping them: notes of interventions are kept for ever. */
export interface Digest {
  readonly sha256: string
  readonly bytes: number
}

export function digestOf(value: JsonValue | undefined): Digest | null {
  if (value === undefined) return null
  const json = JSON.stringify(value)
  return { sha256: sha256(json, 'hex'), bytes: Buffer.byteLength(json) }
}
