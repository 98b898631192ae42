import type { StuckReason } from '../pipeline/outcome.js'

/** What would happen if a key were resumed now. */
export type NextMove = {
  /** The same in a sentence, for people. */
  readonly sentence: string
  /** Why, in another. */
  readonly because: string
} & (
  | {
      /** It would run this phase: `settles` with a result that is known, without a call. */
      readonly type: 'runs' | 'settles'
      readonly phase: string
      readonly mayBeSkipped: boolean
      readonly callsProvider: false
    }
  /** It would call the provider. */
  | ({
      readonly type: 'calls'
      readonly callsProvider: true
      /** The call may have been made before. */
      readonly again: boolean
    } & ProviderMove)
  /** It would ask the provider, and not call before `callsAfterMs` have passed; null where that cannot be said yet. */
  | ({
      readonly type: 'asks'
      readonly callsProvider: false
      readonly callsAfterMs: number | null
    } & ProviderMove)
  /** It would go on without the call. */
  | { readonly type: 'goes_on'; readonly phase: string; readonly callsProvider: false }
  /** Nothing runs: it is answered with the stored response. */
  | { readonly type: 'replays'; readonly callsProvider: false }
  | {
      /** Somebody runs it (`holder`), or it rests (`back_off`); nothing happens before `inMs`. */
      readonly type: 'waits'
      readonly for: 'holder' | 'back_off'
      readonly callsProvider: false
      readonly inMs: number
      /** What would happen after that, if nothing else has happened to the key. */
      readonly then: NextMove
    }
  | {
      /** It belongs to an atomic handler: only a request of its client can run it. */
      readonly type: 'needs_its_client'
      readonly callsProvider: false
      /** What that request would do. */
      readonly then: NextMove
    }
  | {
      /** A person decides: it is stuck, or would become so. */
      readonly type: 'needs_a_person'
      readonly callsProvider: false
      readonly reason: StuckReason
      readonly isStuck: boolean
      /** What would happen if it were unstuck without a verdict; null where it cannot be. */
      readonly then: NextMove | null
    }
  /** It cannot be said, such as because no engine has recorded that definition. */
  | { readonly type: 'unknown'; readonly callsProvider: false }
)

/** Where a provider comes in. */
interface ProviderMove {
  readonly phase: string
  readonly mayBeSkipped: boolean
  readonly effectName: string
  /** The idempotency key that it is called with, and asked by; null where no engine has recorded how it is made. */
  readonly providerKey: string | null
}
