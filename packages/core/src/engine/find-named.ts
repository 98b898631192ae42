import type { KeyRow } from '../storage/keys/key-row.js'
import { findKey } from '../storage/keys/find-key.js'
import { findKeyById } from '../storage/keys/find-key-by-id.js'
import type { Store } from '../storage/statement.js'
import type { KeyReference } from './intervention.js'

/** The key that is meant, whichever way it is named; null when there is none. */
export async function findNamed(store: Store, of: KeyReference): Promise<KeyRow | null> {
  return 'keyId' in of ? findKeyById(store, of.keyId) : findKey(store, of.scope, of.key)
}
