import { sha256 } from '../sha256.js'
import type { KeyRow } from '../storage/keys/key-row.js'

/**
 * The idempotency key sent to a provider: the same on every attempt, after every crash, rename and deploy; distinct per
 * (scope, key, effect). It never contains the row's id, which can be assigned twice after a lost commit. Each part is
 * prefixed with its length, so that no two lists of parts yield the same bytes.
 */
export function providerKeyOf(
  namespace: string,
  row: Pick<KeyRow, 'scope' | 'key' | 'fingerprint' | 'pipeline' | 'effectEpoch'>,
  effectName: string,
): string {
  const { scope, key, fingerprint, pipeline, effectEpoch } = row
  const parts = [namespace, scope, key, fingerprint, pipeline, effectName, String(effectEpoch)]
  const bytes = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join('')
  return `pawl_${sha256(bytes, 'base64url')}`
}
