import type { InterventionView } from '../engine/intervention.js'
import type { EffectView } from './operator.js'
import type { KeySummary } from './page-keys.js'

/** An intervention, and what it was about. */
export interface RecordedIntervention extends InterventionView {
  readonly id: string
  /** Null for what is about no single key, such as a round of the reaper. */
  readonly keyId: string | null
  readonly scope: string | null
  readonly key: string | null
}

/** Which interventions to list: newest first. */
export interface InterventionFilter {
  readonly from?: Date
  /** Not included. */
  readonly to?: Date
  readonly action?: string
  readonly actor?: string
  readonly scope?: string
  /** At most this many. Default 50, at most 1000. */
  readonly limit?: number
  /** The `next` of the page before. */
  readonly after?: string
}

/** Some interventions of the list. */
export interface InterventionPage {
  readonly interventions: readonly RecordedIntervention[]
  /** Where the list goes on: pass it as `after`. Null where it ends. */
  readonly next: string | null
}

/** Which duplicates to count. */
export interface DuplicatesWindow {
  readonly from: Date
  /** Not included. */
  readonly to: Date
  /** At most this many scopes, those with most duplicates first. Default 20, at most 100. */
  readonly top?: number
}

/** Duplicates that a scope sent in a window. */
export interface ScopeDuplicates {
  /** Empty for all scopes that were not counted by themselves. */
  readonly scope: string
  readonly replayed: number
  readonly inFlight: number
  readonly mismatched: number
  readonly byPipeline: readonly {
    readonly pipeline: string
    readonly replayed: number
    readonly inFlight: number
    readonly mismatched: number
  }[]
  /** One entry for each minute in which there were any, oldest first. */
  readonly minutes: readonly {
    readonly at: Date
    readonly replayed: number
    readonly inFlight: number
    readonly mismatched: number
  }[]
}

/** Something that a person's search has found. */
export type SearchHit =
  | { readonly type: 'key'; readonly key: KeySummary }
  | { readonly type: 'effect'; readonly effect: EffectView }
  /** A scope that has keys. */
  | { readonly type: 'scope'; readonly scope: string }

/** What a search has found, and how far back it looked where it could not look at everything. */
export interface Findings {
  readonly found: readonly SearchHit[]
  /** Not everything from before this moment was looked at; null where all was. */
  readonly lookedBackTo: Date | null
}
