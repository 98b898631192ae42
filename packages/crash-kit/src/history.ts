import type { JsonValue, Outcome, ResumeOutcome } from '@pawl/core'

/** A row as the audit triggers saw it: `row_to_json` of it. A `bytea` is text such as `\x7b7d`. */
export type Row = Readonly<Record<string, JsonValue>>

/** One row that a committed transaction wrote. */
export interface Change {
  /** The order of writing, across all tables. */
  readonly seq: number
  /** Without its schema. */
  readonly table: string
  /** Whether it is one of the framework's tables: `idempotency_keys`, `effects`, `staged_jobs`, `interventions`, `scope_usage`. */
  readonly framework: boolean
  readonly op: 'INSERT' | 'UPDATE' | 'DELETE'
  readonly before: Row | null
  readonly after: Row | null
  /** The database's clock when it was written. */
  readonly atMs: number
}

/** A committed transaction. What was rolled back left nothing in the audit either. */
export interface Commit {
  readonly transaction: string
  /** The actor's name, taken from `application_name`. `KIT` for what the kit itself writes, such as when time passes. */
  readonly actor: string
  readonly changes: readonly Change[]
}

/** The name under which the kit itself writes. */
export const KIT = 'kit'

/** The actor that sends another request beside the one under test. */
export const BYSTANDER = 'bystander'

/** One run of `call` or `reconcile`, as the engine made it. */
export interface CallMade {
  readonly tick: number
  readonly actor: string
  /** Which `execute` or `resume` made it: a number that is unique in the case. */
  readonly execution: number
  readonly phase: string
  readonly kind: 'call' | 'reconcile'
  readonly idempotencyKey: string
}

/** What one `execute` returned. */
export interface ReturnedOutcome {
  readonly tick: number
  readonly actor: string
  readonly execution: number
  readonly outcome: Outcome | ResumeOutcome
  /** A fault struck while it ran, so it may report that the store or the provider was unavailable. */
  readonly disturbed: boolean
  /** A failover lost commits while it ran, so the row may be behind what it knows. */
  readonly failedOver?: boolean
  /** It deliberately sent another request under the same key. */
  readonly otherRequest: boolean
  /** The key's row, read right after, if nobody else has written it in between; null if it is unknown or missing. */
  readonly row: Row | null
}

/** A request that reached the provider. */
export interface ProviderRequest {
  readonly tick: number
  readonly method: string
  readonly path: string
  readonly body: string
  /** Null when none was sent. */
  readonly idempotencyKey: string | null
  /** Whether it had an effect: false for repetitions, refusals and queries (GET). */
  readonly executed: boolean
  /** The phase whose call it belongs to; null if it came from somewhere else, such as a transaction. */
  readonly phase: string | null
  /** The actor that ran that phase; null as above. */
  readonly actor: string | null
  /** Whether it came while that actor was inside a phase's transaction. */
  readonly inTransaction: boolean
}

/** A job that the relay handed to the sink. */
export interface Delivery {
  readonly tick: number
  readonly id: string
  readonly name: string
}

/** Connections and promises that were left over once everything had ended. */
export interface Leftovers {
  /** Actors whose pool did not get all its clients back. */
  readonly lostClients: readonly { readonly actor: string; readonly total: number; readonly idle: number }[]
  /** Backends of actors that are in a transaction although nothing runs. */
  readonly openTransactions: readonly { readonly actor: string; readonly query: string }[]
  readonly unhandledRejections: readonly unknown[]
}

/** Everything that is known of one case, from three sources that cannot cover for each other. */
export interface History {
  /** From the database: every committed change, in the order in which the key's row was written. */
  readonly commits: readonly Commit[]
  /** What was committed and then lost in failovers. `commits` contains none of it. */
  readonly lost: readonly Commit[]
  /** From the application. */
  readonly calls: readonly CallMade[]
  readonly outcomes: readonly ReturnedOutcome[]
  readonly deliveries: readonly Delivery[]
  readonly leftovers: Leftovers
  /** From the provider, whose ledger is outside the database. */
  readonly requests: readonly ProviderRequest[]
  /** How many rounds of the completer the key needed to end once faults had stopped; null if it never ended. */
  readonly completerRounds: number | null
  /** What was wrong with how values were sealed, in sentences. Left out where no engine seals any. */
  readonly exposed?: readonly string[]
}

/** One line of a finding's timeline. */
export interface TimelineEntry {
  readonly tick: number
  /** The actor, or `database`, `provider`, `kit`. */
  readonly who: string
  /** What happened, in words. */
  readonly what: string
  /** The recovery point afterwards; null when there is no row, or it is unknown. */
  readonly point: string | null
  readonly fence: number | null
}

/** What the oracle knows of the pipeline. */
export interface PipelineShape {
  readonly name: string
  readonly version: number
  /** `started`, the phases in order, `finished`. */
  readonly points: readonly string[]
  readonly foreign: readonly {
    readonly phase: string
    readonly guarantee: 'keyed' | 'queryable' | 'at_most_once'
  }[]
  /** How many attempts at one point are made before the key is stuck. */
  readonly maxAttempts: number
  /** The age at which an unfinished key becomes stuck. Left out when no case could reach it. */
  readonly maxAgeMs?: number
  /** With `afterExpiry: 'run'`: a request whose key was deleted is a new one, whatever effects it had. */
  readonly runsAgain?: true
  /** With `commits: 'fewest'`: phases between two calls share a transaction. */
  readonly inLegs?: true
}

/** A guarantee of the design, or a lint, that did not hold. */
export interface Violation {
  /** `I1` to `I15`, `I17`, `L1`, `oracle`, `outcome`, or `lint`. */
  readonly rule: string
  /** What must hold, in one sentence. */
  readonly title: string
  /** What was seen instead: who, where, which values. */
  readonly detail: string
  /** The tick of the case at which it showed, if that is known. */
  readonly tick?: number
}
