import { createHash } from 'node:crypto'
import type { JsonValue } from '../pipeline/json-value.js'

/** Tells whether two values were the same, without keeping them: notes of interventions are kept for ever. */
export interface Digest {
  readonly sha256: string
  readonly bytes: number
}

export function digestOf(value: JsonValue | undefined): Digest | null {
  if (value === undefined) return null
  const json = Buffer.from(JSON.stringify(value))
  return { sha256: createHash('sha256').update(json).digest('hex'), bytes: json.length }
}
