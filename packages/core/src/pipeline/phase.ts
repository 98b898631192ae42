import type {
  CompiledQuery,
  DeleteResult,
  InsertResult,
  MergeResult,
  Transaction,
  UpdateResult,
} from 'kysely'
import type { Directive } from './directive.js'
import type { Jsonable, JsonValue, NotJson } from './json-value.js'
import type { PhaseSettings } from './settings.js'

export type MaybePromise<T> = T | Promise<T>

/**
 * Stages a job in the phase's own transaction: it exists exactly when the phase has committed. Returns the job's id.
 * Without a stager, its row is written once the phase has returned, so the phase's own queries do not see it.
 *
 * @example
 * await stage('send_receipt', { rideId: state.rideId })
 * await stage('ask_for_rating', { rideId: state.rideId }, { runAfterMs: 3_600_000 })
 */
export type Stage = <Payload>(
  name: string,
  payload: Payload & Jsonable<Payload>,
  options?: {
    /** The job is not delivered before this many milliseconds have passed. Default 0. */
    readonly runAfterMs?: number
  },
) => Promise<string>

/** An insert, update, delete or merge without `returning`, as Kysely or `query` builds it, and not yet executed. */
export interface Writing {
  /** Returns the SQL and the values. */
  compile(): CompiledQuery
  /** Only tells a write from a read: its rows are counts. Nobody calls it. */
  execute(): Promise<readonly (InsertResult | UpdateResult | DeleteResult | MergeResult)[]>
}

/**
 * Writes rows whose result the phase does not need, without a round trip of their own: the statement travels with the
 * next query of the transaction, or with its COMMIT. Nothing is returned, so there is nothing to await. If the statement
 * fails, the transaction is undone as if the phase had thrown the error; the phase itself cannot catch it.
 *
 * @example
 * write(tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId))
 */
export type Write = (query: Writing) => void

/** What `when` and `call` see: no transaction, and nothing that could open one. */
export interface PhaseContext<Input, State> {
  /** The request's input as stored: the schema's output, where there is a schema. The same on every attempt. */
  readonly input: Input
  /** What earlier phases returned, merged. */
  readonly state: State
  /** The principal that owns the key. */
  readonly scope: string
  /** The id of the key's row: business rows may refer to it (`ON DELETE SET NULL`). */
  readonly keyId: string
}

/**
 * What the functions that run in the phase's transaction see: `local`, `settle`, `onError` and `finish`.
 *
 * @example
 * .local('ride_created', async ({ tx, input, scope, keyId }) => {
 *   const values = { rider: scope, amount: input.amount, key_id: keyId }
 *   const ride = await tx.insertInto('rides').values(values).returning('id').executeTakeFirstOrThrow()
 *   return { rideId: ride.id }
 * })
 */
export interface TransactionContext<DB, Input, State> extends PhaseContext<Input, State> {
  /** The phase's transaction. What is written here commits together with the recovery point, or not at all. */
  readonly tx: Transaction<DB>
  /** Writes rows in this transaction, without a round trip of their own. */
  readonly write: Write
  /** Stages a job in this transaction. */
  readonly stage: Stage
}

/**
 * What `call` and `reconcile` see: what they need to send the same request on every attempt, and no transaction.
 *
 * @example
 * call: ({ input, idempotencyKey, signal }) => payments.charge(input.amount, { idempotencyKey, signal })
 */
export interface CallContext<Input, State> extends PhaseContext<Input, State> {
  /** The same on every attempt, distinct per effect. Give it to the provider. */
  readonly idempotencyKey: string
  /** Aborted at the time-out, when the lease is lost, and when the engine closes. */
  readonly signal: AbortSignal
}

/** `reconcile` found the effect at the provider; its result goes to `settle`. */
export class Found<Result> {
  /** @internal */
  readonly kind = 'found'
  /** What `call` would have returned. */
  readonly result: Result
  constructor(result: Result) {
    this.result = result
  }
}

/** `reconcile` did not find the effect at the provider. */
export class Absent {
  /** @internal */
  readonly kind = 'absent'
}

/**
 * For `reconcile`: the provider has it. `settle` runs with this result, which is what `call` would have returned.
 *
 * @example
 * reconcile: async ({ idempotencyKey }) => {
 *   const charge = await payments.findByReference(idempotencyKey)
 *   return charge === null ? absent() : found(charge)
 * }
 */
export const found = <Result>(result: Result): Found<Result> => new Found(result)
/**
 * For `reconcile`: the provider does not have it. With `queryable`, this is believed once the call's deadline and
 * `quietForMs` have passed; then the call is made again.
 *
 * @example
 * reconcile: async ({ idempotencyKey }) => {
 *   const charge = await payments.findByReference(idempotencyKey)
 *   return charge === null ? absent() : found(charge)
 * }
 */
export const absent = (): Absent => new Absent()

export const GUARANTEES = ['keyed', 'queryable', 'at_most_once'] as const
/**
 * What the provider promises, which decides what a resumed phase may do. See docs/guarantees.md.
 * `keyed`: it deduplicates on the key it is sent. `queryable`: it can be asked. `at_most_once`: neither.
 */
export type Guarantee = (typeof GUARANTEES)[number]

type Reconcile<Input, State, Result> = (
  context: CallContext<Input, State>,
) => MaybePromise<Found<NoInfer<Result>> | Absent>

/** The guarantee and what goes with it. */
export type GuaranteeOptions<DB, Input, State, Result, Unknown> =
  | {
      /**
       * What the provider promises. One of:
       * `keyed` (default): it deduplicates on `idempotencyKey`; an interrupted call is repeated with the same key.
       * `queryable`: it can be asked; an interrupted call is looked up with `reconcile`.
       * `at_most_once`: neither; an interrupted call is never repeated: the key is stuck, and a person decides.
       */
      readonly guarantee?: 'keyed'
      /** How long the provider deduplicates, counted from the previous commit. Default 23 h. */
      readonly windowMs?: number
      /** Called once the window is over. Without it, the key is then stuck. Returns `found(result)` or `absent()`. */
      readonly reconcile?: Reconcile<Input, State, Result>
      /** Only with `queryable`. */
      readonly quietForMs?: never
      /** Only with `at_most_once`. */
      readonly whenUnknown?: never
    }
  | {
      /**
       * `queryable`: the provider can be asked whether it happened. An interrupted call is looked up with `reconcile`.
       * The others: `keyed` (default), it deduplicates on `idempotencyKey`; `at_most_once`, neither.
       */
      readonly guarantee: 'queryable'
      /** Asks the provider about an interrupted call. Returns `found(result)` or `absent()`. */
      readonly reconcile: Reconcile<Input, State, Result>
      /** How long after the call's deadline "absent" starts to count. Default 60 s. */
      readonly quietForMs?: number
      /** Only with `keyed`. */
      readonly windowMs?: never
      /** Only with `at_most_once`. */
      readonly whenUnknown?: never
    }
  | {
      /**
       * `at_most_once`: the provider neither deduplicates nor can be asked. After any error of `call`, even a refused
       * connection, its outcome is unknown, unless `onError` answers it with a final response or with
       * `retryLater(error, { notExecuted: true })`. When it is unknown, the key is stuck and a person decides, or
       * `whenUnknown` goes on. The others: `keyed` (default), it deduplicates on `idempotencyKey`; `queryable`, it can be
       * asked.
       */
      readonly guarantee: 'at_most_once'
      /**
       * What to do when nobody knows whether the call was executed. `'stuck'` (default): a person decides. A function: it
       * goes on without the call, in one transaction with the recovery point, and returns what `settle` would return:
       * state, `respond()` or `retryLater()`. The trail, `pawl show` and `pawl:outcome_unknown` report it. For effects
       * that the request can do without, such as an e-mail.
       *
       * @example
       * whenUnknown: () => ({ confirmationSent: 'perhaps' })
       */
      readonly whenUnknown?:
        | 'stuck'
        | ((context: TransactionContext<DB, Input, State>) => Unknown & PhaseReturn<Unknown>)
      /** Only with `keyed` and `queryable`. */
      readonly reconcile?: never
      /** Only with `queryable`. */
      readonly quietForMs?: never
      /** Only with `keyed`. */
      readonly windowMs?: never
    }

/** Makes a phase conditional. `Condition` is `never` exactly where there is no `when`. */
export interface Conditional<Input, State, Condition extends boolean> {
  /** The phase runs only if this returns true; otherwise it is recorded as skipped. Decide from input and state alone. */
  readonly when?: (context: PhaseContext<Input, State>) => Condition
}

export interface ForeignPhaseOptions<DB, Input, State, Called, Returned> extends PhaseSettings {
  /** The one foreign side effect. No transaction is open and no connection is held. */
  readonly call: (context: CallContext<Input, State>) => Called & CallReturn<Called>
  /** Records the result, in one transaction with the recovery point. */
  readonly settle?: (
    context: TransactionContext<DB, Input, State> & {
      /** What `call` returned or `reconcile` found; after a crash, the result as it was kept. */
      readonly result: NoInfer<Awaited<Called>>
    },
  ) => Returned & PhaseReturn<Returned>
  /** The provider's name for the effect, recorded in `effects` for reconciliation. Return nothing where it has none. */
  readonly reference?: (result: NoInfer<Awaited<Called>>) => string | null | undefined
  /**
   * Called when `call` failed. It may write and respond: rows and response commit together. Return nothing to have the
   * error treated as usual. A final response is refused unless the error shows that the provider did not execute the
   * call: by its 4xx, or because `isAnswer` says so.
   */
  readonly onError?: (
    context: TransactionContext<DB, Input, State> & {
      /** What `call` threw. Pawl's own errors, such as a time-out of the call, are not passed here. */
      readonly error: unknown
    },
  ) => MaybePromise<Directive | void>
  /**
   * Declares which errors of `call` are the provider's answer that it has not executed the call and never will, though
   * they carry no status that says so. Only then may `onError` give a final response. An error with the provider's 4xx
   * (not 408, 409, 425 or 429) in `status`, `statusCode` or `response` needs no declaration. Broken connections and
   * time-outs are never an answer, whatever this returns. Everything else that you declare becomes an answer, whatever its
   * status. So do not declare a base class such as `StripeError`: it also covers 409, 5xx and `StripeIdempotencyError`,
   * whose first request was executed. Decide synchronously, from the error alone.
   *
   * @example
   * isAnswer: (error) => error instanceof CardDeclined
   */
  readonly isAnswer?: (error: unknown) => boolean
  /** Part of the provider key; keep it when you rename the phase. Default: the phase's name. */
  readonly effectName?: string
}

type NoPatch = void | undefined | null

// A function's return type is inferred as a whole, promise included. With `T | Promise<T>`, the compiler would make each
// member of a union a candidate of its own, and settle for the first.

/** What a phase may return, or the sentence that says what is wrong with it. */
export type PhaseReturn<Returned> =
  Returned extends Promise<infer Value> ? Promise<StateReturn<Value>> : StateReturn<Returned>

type StateReturn<Returned> = Returned extends Directive | NoPatch
  ? Returned
  : Returned extends readonly unknown[] | string | number | boolean
    ? NotJson<'a phase returns an object that is merged into the state, or respond(), or retryLater()'>
    : Jsonable<Returned>

type CallReturn<Called> =
  Called extends Promise<infer Value> ? Promise<CallResult<Value>> : CallResult<Called>
type CallResult<Value> = Value extends void ? Value : Jsonable<Value>

type PatchOf<Returned> = Exclude<Returned, Directive | NoPatch>
/** Written out with `infer`, so that the compiler's messages show the members and not how they were put together. */
type Overwrite<State, Patch> = Patch extends unknown
  ? Omit<State, keyof Patch> & Patch extends infer Merged
    ? { [K in keyof Merged]: Merged[K] }
    : never
  : never

/** The state after a phase: members are certain if the phase always returns them, and optional if it may not. */
export type StateAfter<State, Returned, Condition> = [PatchOf<Awaited<Returned>>] extends [never]
  ? State
  : [Condition | Extract<Awaited<Returned>, NoPatch>] extends [never]
    ? Overwrite<State, PatchOf<Awaited<Returned>>>
    : Overwrite<State, Partial<PatchOf<Awaited<Returned>>>>

// How the engine sees a phase once the types have done their work.

type Untyped = never

export interface LocalPhase {
  readonly kind: 'local'
  readonly name: string
  readonly run: (context: Untyped) => unknown
  readonly when: ((context: Untyped) => boolean) | null
  readonly settings: PhaseSettings
}

export interface ForeignPhase {
  readonly kind: 'foreign'
  readonly name: string
  readonly effectName: string
  readonly guarantee: Guarantee
  readonly windowMs: number
  readonly quietForMs: number
  readonly call: (context: Untyped) => unknown
  readonly settle: ((context: Untyped) => unknown) | null
  readonly reconcile: ((context: Untyped) => unknown) | null
  readonly reference: ((result: Untyped) => unknown) | null
  readonly onError: ((context: Untyped) => unknown) | null
  readonly isAnswer: ((error: Untyped) => unknown) | null
  /** Null makes the key stuck. */
  readonly whenUnknown: ((context: Untyped) => unknown) | null
  readonly when: ((context: Untyped) => boolean) | null
  readonly settings: PhaseSettings
}

export interface FinishPhase {
  readonly kind: 'finish'
  readonly name: 'finished'
  readonly run: (context: Untyped) => unknown
  readonly settings: PhaseSettings
}

export type Phase = LocalPhase | ForeignPhase
export type AnyPhase = Phase | FinishPhase
export type StateObject = { readonly [name: string]: JsonValue | undefined }
