import { KeyedHash } from '../keyed-hash.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { Protection } from '../protection.js'
import { sha256 } from '../sha256.js'

/** Shows whether two values were the same without keeping them: notes of interventions are kept for ever. */
export type Digest =
  | { readonly sha256: string; readonly bytes: number }
  /** Where values are protected: nobody can find out by trying what it was. */
  | { readonly hmacSha256: string; readonly keyId: string; readonly bytes: number }

export function digestOf(value: JsonValue | undefined, protection: Protection | null): Digest | null {
  if (value === undefined) return null
  const json = JSON.stringify(value)
  const bytes = Buffer.byteLength(json)
  const secret = protection?.fingerprintSecret(null) ?? null
  if (secret === null) return { sha256: sha256(json, 'hex'), bytes }
  const hmacSha256 = new KeyedHash(secret.secret).hash(Buffer.from(`digest:${json}`))
  return { hmacSha256, keyId: secret.keyId, bytes }
}
