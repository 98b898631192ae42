import type { AnyPhase, FinishPhase, LocalPhase } from '../pipeline/phase.js'
import type { Effect } from '../storage/effects/insert-effect.js'
import type { ReturnedBy } from './interpret-return.js'

/** The user's part of a transaction, and what goes with it. */
export interface Work {
  readonly phase: AnyPhase
  readonly by: ReturnedBy
  /** Gets `input`, `state`, `scope`, `keyId`, `tx`, `write` and `stage`. */
  readonly body: (context: never) => unknown
  /** Recorded with the advance, in the same statement. */
  readonly effect: Effect | null
  /** The work goes on from a call that may or may not have been executed: the trail says so. */
  readonly outcomeUnknown?: true
  /** Awaited once there is a connection, before BEGIN. */
  readonly beforeBegin: (() => Promise<void>) | null
}

/** The work of a phase that is one transaction, and nothing else. */
export function localWork(phase: LocalPhase | FinishPhase): Work {
  const by = phase.kind === 'finish' ? 'finish' : 'phase'
  return { phase, by, body: phase.run, effect: null, beforeBegin: null }
}
