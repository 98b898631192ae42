/** Everything that exists in the model: one key's row, who works on it, and what is under way between them. */
export interface State {
  /** It is null if there is no such key, or not any more. */
  readonly row: Row | null
  /** Whoever has updated the row and not committed yet, and so has the row's lock. */
  readonly open: OpenTransaction | null
  readonly actors: Readonly<Record<ActorName, Actor>>
  /** Messages that were sent and are never answered: each lands later, or never. */
  readonly late: readonly Late[]
  readonly provider: Provider
  /** The response that clients have seen for this key. */
  readonly told: string | null
  /** How many rows the key has had: one that was reaped may be reserved again. */
  readonly lives: number
  /** What may still go wrong. */
  readonly left: Faults
}

export const ACTOR_NAMES = ['A', 'B', 'C'] as const
export type ActorName = (typeof ACTOR_NAMES)[number]

/** A row of `idempotency_keys`, without what the protocol does not look at. */
export interface Row extends Hold {
  readonly lease: Lease
  /** How many phases have committed: 0 is `started`, all of them is `finished`. */
  readonly point: number
  readonly status: 'running' | 'finished' | 'stuck'
  readonly intent: Intent
  readonly epoch: number
  readonly response: string | null
}

/** Time is only an order: a lease is live until the clock says otherwise. `none` is a key that was given back or never held. */
type Lease = 'none' | 'live' | 'over'

/** What a write is conditional on. A holder's name is new with every grant. */
export interface Hold {
  readonly id: number
  readonly fence: number
  readonly holder: string
}

/** What is known of the foreign phase's call. */
type Intent = 'none' | 'calling' | 'called'

interface OpenTransaction {
  readonly by: ActorName
  readonly hold: Hold
  readonly to: number
  /** Its commit declares the call that follows. */
  readonly declares: boolean
  /** The row as the UPDATE computed it, which may be a while before the COMMIT. */
  readonly lease: Lease
  /** COMMIT was sent and the connection broke, so that it may land or not. */
  readonly commitLost: boolean
}

/** What a stale reader has read. `changed` says that the row was written since, which its `xmin` shows. */
export interface Read {
  readonly id: number
  readonly fence: number
  readonly point: number
  readonly intent: Intent
  readonly changed: boolean
}

/** One grant, as its holder has it in memory. */
export interface Run {
  readonly hold: Hold
  readonly point: number
  readonly intent: Intent
  readonly epoch: number
}

/** A process, by what it does next. If it does that much later, it was frozen. */
export type Actor =
  | { readonly at: 'idle' }
  /** The answer to its grant was lost, so it asks again under the same name. */
  | { readonly at: 'asking'; readonly holder: string }
  | { readonly at: 'found'; readonly read: Read }
  | { readonly at: 'running'; readonly run: Run }
  /** It has stored durably that it is about to call. */
  | { readonly at: 'declared'; readonly run: Run }
  | { readonly at: 'calling'; readonly run: Run }
  /** Its transaction is open: the UPDATE is done, the COMMIT is not. */
  | { readonly at: 'updated'; readonly run: Run }
  | { readonly at: 'in_doubt'; readonly run: Run; readonly raisedAs: string | null }
  | { readonly at: 'giving_back'; readonly run: Run; readonly raiseEpoch: boolean }
  | { readonly at: 'marking_stuck'; readonly run: Run }

/** A single statement, which commits by itself, or a request to the provider. */
export type Statement =
  | { readonly do: 'insert'; readonly holder: string }
  | { readonly do: 'take_over'; readonly read: Read; readonly holder: string }
  | { readonly do: 'mark_unheld_stuck'; readonly read: Read; readonly holder: string }
  | { readonly do: 'declare'; readonly hold: Hold }
  | { readonly do: 'renew'; readonly hold: Hold }
  | { readonly do: 'raise'; readonly hold: Hold; readonly holder: string }
  | { readonly do: 'give_back'; readonly hold: Hold; readonly intent: Intent; readonly raiseEpoch: boolean }
  | { readonly do: 'mark_stuck'; readonly hold: Hold; readonly intent: Intent }

export type Late =
  | { readonly by: ActorName; readonly statement: Statement }
  | { readonly by: ActorName; readonly callUnder: number }

/** What the provider knows, by epoch: another epoch is another provider key. */
interface Provider {
  readonly verdicts: readonly Verdict[]
  /** Requests sent under each epoch, which are counted only for a provider that does not deduplicate. */
  readonly sent: readonly number[]
}
export type Verdict = 'none' | 'done' | 'refused'

interface Faults {
  readonly crashes: number
  /** Phases that throw or ask for a retry, so that the key is given back. */
  readonly failures: number
  /** Answers, commits, statements and requests whose fate nobody learns, and transactions that the server ends. */
  readonly losses: number
  /** How often the provider says that it has not executed a key, and never will. */
  readonly refusals: number
  /** How often a person intervenes. */
  readonly interventions: number
}

/** How far the exploration goes. */
export interface Bound extends Faults {
  /** After this many grants the key counts as exhausted, and whoever finds it marks it stuck. */
  readonly grants: number
  /** How often the key is reserved: 2 means once more after it was reaped. */
  readonly lives: number
}

/** The phases in order, of which the last one finishes. At most one of them is foreign. */
export type Phases = readonly ('local' | 'keyed' | 'at_most_once' | 'finish')[]

export function initialState(bound: Bound): State {
  const { crashes, failures, losses, refusals, interventions } = bound
  // A refusal and an intervention each raise the epoch by one. Under broken rules, a stale give-back may do so as well.
  const epochs = Array.from({ length: refusals + interventions + 2 })
  return {
    row: null,
    open: null,
    actors: { A: { at: 'idle' }, B: { at: 'idle' }, C: { at: 'idle' } },
    late: [],
    provider: { verdicts: epochs.map(() => 'none'), sent: epochs.map(() => 0) },
    told: null,
    lives: 0,
    left: { crashes, failures, losses, refusals, interventions },
  }
}

/** The grant that an actor believes it has, if any. */
export function runOf(actor: Actor): Run | null {
  return 'run' in actor ? actor.run : null
}

export function isSameHold(one: Hold, other: Hold): boolean {
  return one.id === other.id && one.fence === other.fence && one.holder === other.holder
}
