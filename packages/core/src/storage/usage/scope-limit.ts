import type { Rate } from './bucket.js'

/** How much a scope may have: of everything, or of one pipeline. */
export interface ScopeLimit {
  readonly newKeys: Rate | null
  /** Running and stuck keys at once. */
  readonly unfinished: number | null
  readonly storedBytes: number | null
}

/** Both hold. Each counts for itself; null where there is none. */
export interface ScopeLimits {
  readonly ofScope: ScopeLimit | null
  readonly ofPipeline: ScopeLimit | null
}

/** A limit that a new key has met. */
export interface MetLimit {
  readonly limit: 'new_keys' | 'unfinished' | 'stored_bytes'
  readonly of: 'scope' | 'pipeline'
  /** Null when nobody knows how long. */
  readonly waitMs: number | null
}
