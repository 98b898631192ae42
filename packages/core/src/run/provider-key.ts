import { lengthPrefixed } from '../length-prefixed.js'
import { sha256 } from '../sha256.js'
import type { KeyRow } from '../storage/keys/key-row.js'

/**
 * The idempotency key sent to a provider: a hash of the namespace, scope, key, fingerprint, pipeline, effect name and effect
 * epoch. So it is the same on every attempt and after every crash and deploy, and a phase can be renamed if its effect name
 * is kept. Only the epoch ever changes: a person or `onError` who says that the call was not executed raises it, and the
 * next call has another key. If effects of earlier requests under this name were undone, their number is a part as well: the provider
 * would answer with what was undone. The row's id is not a part, because it can be assigned twice after a lost commit.
 */
export function providerKeyOf(
  namespace: string,
  row: Pick<KeyRow, 'scope' | 'key' | 'fingerprint' | 'pipeline' | 'effectEpoch' | 'undoneBefore'>,
  effectName: string,
): string {
  const { scope, key, fingerprint, pipeline, effectEpoch, undoneBefore } = row
  const undone = undoneBefore === 0 ? [] : [String(undoneBefore)]
  const parts = [namespace, scope, key, fingerprint, pipeline, effectName, String(effectEpoch), ...undone]
  return `pawl_${sha256(lengthPrefixed(parts), 'base64url')}`
}
