import type { JsonValue, Outcome, ResumeOutcome } from '@pawl/core'

/** A row as the audit triggers saw it: `row_to_json` of it. A `bytea` is text such as `\x7b7d`. */
export type Row = Readonly<Record<string, JsonValue>>

/** One row that a committed transaction wrote. */
export interface Change {
  /** Order of writing, over all tables. */
  readonly seq: number
  /** Without its schema. */
  readonly table: string
  /** Whether it is one of the framework's tables: `idempotency_keys`, `effects`, `staged_jobs`, `interventions`. */
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
  /** Who: the actor's name, taken from `application_name`. `KIT` for the kit's own meddling, such as time that passes. */
  readonly actor: string
  readonly changes: readonly Change[]
}

/** The name under which the kit itself writes. */
export const KIT = 'kit'

/** Whoever sends another request beside the one under test. */
export const BYSTANDER = 'bystander'

/** One run of `call` or `reconcile`, as the engine made it. */
export interface CallMade {
  readonly tick: number
  readonly actor: string
  /** Which `execute` or `resume` made it: distinct over the whole case. */
  readonly execution: number
  readonly phase: string
  readonly kind: 'call' | 'reconcile'
  readonly idempotencyKey: string
}

/** What one `execute` was told. */
export interface Told {
  readonly tick: number
  readonly actor: string
  readonly execution: number
  readonly outcome: Outcome | ResumeOutcome
  /** A fault struck while it ran: then it may be told that the store or the provider was away. */
  readonly disturbed: boolean
  /** A failover lost commits while it ran: the row may be behind what it knows of it. */
  readonly failedOver?: boolean
  /** It was sent on purpose with the same key for another request. */
  readonly impostor: boolean
  /** The key's row, read right after, if nobody else has written it in between; null if it is not known or not there. */
  readonly row: Row | null
}

/** A request that reached the provider. */
export interface ProviderRequest {
  readonly tick: number
  readonly method: string
  readonly path: string
  readonly body: string
  /** Null where none was sent. */
  readonly idempotencyKey: string | null
  /** Whether it made an effect: false for a repetition, a refusal, and for questions (GET). */
  readonly executed: boolean
  /** Which phase's call it belongs to; null if it came from somewhere else, such as a transaction. */
  readonly phase: string | null
  /** Who was in that phase; null as above. */
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

/** What was left of connections and promises once all had ended. */
export interface Leftovers {
  /** Actors whose pool has clients that did not come back. */
  readonly lostClients: readonly { readonly actor: string; readonly total: number; readonly idle: number }[]
  /** Backends of actors that are in a transaction although nobody runs. */
  readonly openTransactions: readonly { readonly actor: string; readonly query: string }[]
  readonly unhandledRejections: readonly unknown[]
}

/** All that is known of one case, from three sources that cannot cover for each other. */
export interface History {
  /** From the database: every committed change, in the order in which the key's row was written. */
  readonly commits: readonly Commit[]
  /** What was committed and then lost, in failovers: `commits` has none of it. */
  readonly lost: readonly Commit[]
  /** From the application. */
  readonly calls: readonly CallMade[]
  readonly told: readonly Told[]
  readonly deliveries: readonly Delivery[]
  readonly leftovers: Leftovers
  /** From the provider, whose books are outside of the database. */
  readonly requests: readonly ProviderRequest[]
  /** How many rounds of the completer it took to end, once faults had stopped; null where it never ended. */
  readonly completerRounds: number | null
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
  /** Attempts at one point before the key is stuck. */
  readonly maxAttempts: number
  /** Age at which an unfinished key is stuck. Not given: it has none that a case could reach. */
  readonly maxAgeMs?: number
}

/** A guarantee of the design, or a lint, that did not hold. */
export interface Violation {
  /** `I1` to `I15`, `L1`, `oracle`, `told`, or `lint`. */
  readonly rule: string
  /** One sentence: what must hold. */
  readonly title: string
  /** What was seen instead: who, where, which values. */
  readonly detail: string
  /** When it showed, in ticks of the case, where that is known. */
  readonly tick?: number
}
