import type { Guarantee, IsolationLevel, JsonObject, JsonValue } from '@pawl/core'
import type { Style } from './body-style.js'

/** Where a value comes from: the plan itself, or what the phase is given. */
export type Source =
  | { readonly from: 'plan'; readonly value: JsonValue }
  | { readonly from: 'input' }
  | { readonly from: 'state' }

/** What one transaction writes. */
export interface Work {
  /** One row in `facts` each. */
  readonly facts: readonly Source[]
  /** Added to `totals`, which has one row per scope and name. */
  readonly totals: readonly { readonly name: string; readonly amount: number }[]
  readonly jobs: readonly { readonly name: string; readonly payload: Source }[]
}

/** Errors that PostgreSQL raises, by name: conflicts, a time-out, and one that nobody expects. */
export const SQL_STATES = {
  serialization_failure: '40001',
  deadlock: '40P01',
  lock_not_available: '55P03',
  query_cancelled: '57014',
  unique_violation: '23505',
} as const
export type SqlError = keyof typeof SQL_STATES

export const TRANSIENT_STATUSES = [408, 425, 429, 500, 503] as const
type TransientStatus = (typeof TRANSIENT_STATUSES)[number]

/** Errors that need no answer from the database, and so come before the answer to any query that is sent with them. */
export const IMMEDIATE_ERRORS = [
  'throws',
  /** The body is not an async function, and throws before it has done anything. */
  'throws_at_once',
  /** `stage` refuses its payload. */
  'stage_refused',
  /** A transaction inside the transaction. */
  'nested',
] as const

/** What goes wrong in a transaction. */
export type Mishap =
  | { readonly kind: (typeof IMMEDIATE_ERRORS)[number] | 'stream' }
  | { readonly kind: 'retry_later' }
  | { readonly kind: 'answers'; readonly status: TransientStatus }
  /** The database raises it. The phase lets it pass, or catches it and returns as if nothing had happened, or goes on. */
  | { readonly kind: 'sql_error'; readonly error: SqlError; readonly afterwards: AfterError }

export const AFTER_ERROR = ['passes', 'swallowed', 'queries_on', 'queries_on_swallowed'] as const
type AfterError = (typeof AFTER_ERROR)[number]

/** A mishap that happens `times` times, counted outside the database. */
export interface Trouble {
  readonly mishap: Mishap
  /** Before the work or after it. Where everything is sent at once, `lagging` first waits for an answer of its own. */
  readonly at: 'first' | 'last' | 'lagging'
  readonly times: number
}

export interface ResponsePlan {
  readonly status: number
  /** `text` is sent as these bytes. */
  readonly body:
    | { readonly kind: 'none' }
    | { readonly kind: 'json'; readonly source: Source }
    | { readonly kind: 'text'; readonly text: string }
  readonly headers: Readonly<Record<string, string>>
}

/** The answer that ends the request. */
export interface Answer {
  readonly kind: 'respond'
  readonly response: ResponsePlan
}

/** How a phase ends: the next one follows, or it answers. If `patch` is null, it returns nothing. */
export type Ending = { readonly kind: 'advance'; readonly patch: JsonObject | null } | Answer

/** The body of one transaction. */
export interface TransactionPlan<End extends Ending = Ending> {
  readonly work: Work
  readonly style: Style
  readonly trouble: Trouble | null
  readonly ending: End
}

/** How `onError` reacts to a provider that is busy. Whatever it does, its rows must not stay, and the call is made again. */
export const BUSY_ANSWERS = [
  /** There is no `onError`. */
  'absent',
  'nothing',
  'retry_later',
  /** `retryLater` with `notExecuted`: only a new provider key gets through, because the provider keeps this refusal. */
  'not_executed',
  'answers_503',
  /** A final answer, which the engine has to refuse, because nobody knows what happened. */
  'answers_finally',
  'throws',
] as const
export type BusyAnswer = (typeof BUSY_ANSWERS)[number]

/** `broken_answer`: the provider's answer could not be read. */
export type BusyError = TransientStatus | 'broken_answer'

/** What keeps a call from its effect. */
export type Refusal =
  /** The provider answers 402 every time, and `onError` gives the final answer. */
  | { readonly kind: 'declined'; readonly onError: TransactionPlan<Answer> }
  /** The first `times` calls are refused; with `not_executed`, the first `times` provider keys. */
  | {
      readonly kind: 'busy'
      readonly error: BusyError
      readonly times: number
      readonly onError: BusyAnswer
    }

/** If it is null, there is no `when`. */
export type When = null | 'always' | 'never' | { readonly stateHas: string }

interface AnyPhasePlan {
  readonly name: string
  /** If it is null, the phase has the default. */
  readonly isolation: IsolationLevel | null
  readonly when: When
}

export interface LocalPlan extends AnyPhasePlan {
  readonly kind: 'local'
  readonly run: TransactionPlan
}

export interface ForeignPlan extends AnyPhasePlan {
  readonly kind: 'foreign'
  readonly guarantee: Guarantee
  readonly refusal: Refusal | null
  /** Its first fact is the charge's id. */
  readonly settle: TransactionPlan
}

export type PhasePlan = LocalPlan | ForeignPlan

export interface FinishPlan {
  readonly isolation: IsolationLevel | null
  readonly run: TransactionPlan<Answer>
}

export function valueOf(source: Source, input: JsonValue, state: JsonObject): JsonValue {
  switch (source.from) {
    case 'plan':
      return source.value
    case 'input':
      return input
    case 'state':
      return state
  }
}

export function isWanted(when: When, state: JsonObject): boolean {
  if (when === null || when === 'always') return true
  return when !== 'never' && Object.hasOwn(state, when.stateHas)
}
