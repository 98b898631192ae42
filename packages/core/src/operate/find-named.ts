import type { KeyRow } from '../storage/key-row.js'
import { findKey, findKeyById } from '../storage/reserve-statements.js'
import type { Store } from '../storage/statement.js'
import type { KeyReference } from './operator.js'

/** The key that is meant, whichever way it is named; null: there is none. */
export async function findNamed(store: Store, of: KeyReference): Promise<KeyRow | null> {
  return 'keyId' in of ? findKeyById(store, of.keyId) : findKey(store, of.scope, of.key)
}
