import type { Pseudonyms } from '../pseudonyms.js'
import type { ErasedScope } from '../storage/keys/find-keys-to-erase.js'
import type { Store } from '../storage/statement.js'
import type { CheckedErasure } from './check-erasure.js'
import type { KeptList } from './kept-list.js'

/** Smaller than every id. */
export const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/** What the parts of one erasure share. */
export interface ErasureParts {
  /** Runs a batch on a session of its own: it commits, and no lock and no connection outlasts it. */
  readonly batch: <T>(work: (store: Store) => Promise<T>) => Promise<T>
  readonly of: ErasedScope
  readonly erasure: CheckedErasure
  /** The ids that the one key has had; null for a whole scope. */
  readonly keyIds: readonly string[] | null
  readonly pseudonyms: Pseudonyms
  readonly kept: KeptList
  readonly onErased: (key: string) => void
}
