/** What the API answers: the pages are compiled against it. Moments are ISO strings there, hence `AsJson`. */
import type {
  BoundedCount,
  EffectView,
  Flow,
  InterventionView,
  JobView,
  JsonValue,
  KeySummary,
  KeyView,
  NextMove,
  RecordedIntervention,
  RecordedPipeline,
  ScopeDuplicates,
  StuckReason,
} from '@pawl/core'

/** The type of a value that has been through JSON. */
export type AsJson<T> = T extends Date
  ? string
  : T extends readonly (infer Element)[]
    ? readonly AsJson<Element>[]
    : T extends object
      ? { readonly [Name in keyof T]: AsJson<T[Name]> }
      : T

/** Stands for a value that is not shown: what a client or a provider sent. */
interface Hidden {
  readonly hidden: true
  readonly bytes: number
}

/** A value that was revealed, or is too large to be sent. */
export type Shown =
  | Hidden
  | { readonly hidden: false; readonly bytes: number; readonly value: JsonValue }
  /** Bytes that are no text. */
  | { readonly hidden: false; readonly bytes: number; readonly base64: string }
  | { readonly hidden: false; readonly bytes: number; readonly tooLarge: true }

/** Who is signed in, and what the pages have to know from the start. The database is not asked for it. */
export interface Session {
  readonly actor: string
  /** Goes into the header `x-pawl-csrf` of every POST. */
  readonly csrf: string
  readonly canChange: boolean
  readonly canReveal: boolean
  readonly schema: string
  /** With `{traceId}` and `{spanId}` in it; null where there is none. */
  readonly traceUrl: string | null
  readonly version: string
  /** The console's clock. */
  readonly now: Date
}

/** A key in a list: nothing that its client sent. */
export type KeyRowSummary = Omit<KeySummary, 'trail'>

/** A page of a list. */
export interface RequestList {
  readonly rows: readonly KeyRowSummary[]
  /** Pass it as `after` to get what comes next; null at the end. */
  readonly next: string | null
}

/** A key with all that is known about it. */
export interface ShownKey extends Omit<KeyView, 'input' | 'state' | 'response' | 'call'> {
  readonly input: Shown
  readonly state: Shown
  readonly call: (Omit<NonNullable<KeyView['call']>, 'result'> & { readonly result: Shown }) | null
  readonly response: {
    readonly status: number
    readonly headers: Readonly<Record<string, Shown>>
    readonly body: Shown
  } | null
}

/** A staged job of which the payload is hidden. */
export interface ShownJob extends Omit<JobView, 'payload'> {
  readonly payload: Shown
}

/** An intervention of which the detail is hidden: it may have what a client was told. */
export type ShownIntervention<View extends InterventionView = InterventionView> = Omit<View, 'detail'> & {
  readonly detail: Shown
}

/** One request. */
export interface RequestReport {
  readonly key: ShownKey
  readonly effects: readonly EffectView[]
  readonly jobs: readonly ShownJob[]
  readonly interventions: readonly ShownIntervention[]
  readonly next: NextMove | null
  readonly pipeline: RecordedPipeline | null
  /** The database's clock. */
  readonly now: Date
}

/** What an action would do, or did. */
export type ActionResult =
  | { readonly type: 'done' | 'would_be_done'; readonly sentence: string; readonly key: KeyRowSummary | null }
  /** Only of previews: otherwise it is an error with status 409. */
  | {
      readonly type: 'refused'
      readonly sentence: string
      readonly by: Pick<InterventionView, 'action' | 'actor' | 'reason' | 'at'> | null
    }

/** Why keys need somebody. */
export type InboxReason = StuckReason | 'unattended_for_long'

/** What needs a person. */
export interface Inbox {
  readonly groups: readonly {
    readonly reason: InboxReason
    readonly count: BoundedCount
    /** The oldest of them. */
    readonly keys: readonly KeyRowSummary[]
  }[]
  readonly dead: BoundedCount
}

/** Jobs that were given up, oldest first. */
export interface DeadJobList {
  readonly jobs: readonly ShownJob[]
  /** There are more. */
  readonly isPartial: boolean
}

/** What a search found. */
export interface FindAnswer {
  readonly found: readonly (
    | { readonly kind: 'key'; readonly key: KeyRowSummary }
    | { readonly kind: 'effect'; readonly effect: EffectView }
    | { readonly kind: 'scope'; readonly scope: string }
  )[]
  /** Effects of before were not looked at; null where all were. */
  readonly lookedBackTo: Date | null
}

/** Who sent duplicates, most of them first. */
export interface DuplicatesAnswer {
  readonly from: Date
  readonly to: Date
  readonly scopes: readonly ScopeDuplicates[]
}

/** Effects of a window, to compare with what the provider says. */
export interface Reconciliation {
  readonly from: Date
  readonly to: Date
  readonly groups: readonly {
    readonly pipeline: string
    readonly phase: string
    readonly effectName: string
    readonly effects: number
    readonly withoutReference: number
    readonly undone: number
    readonly firstAt: Date
    readonly lastAt: Date
  }[]
  /** More effects than were read. */
  readonly isPartial: boolean
  /** The first of those that the provider's references cannot be compared with. */
  readonly withoutReference: readonly EffectView[]
  /** Keys from before the end of the window of which a call may have been made that is not settled. */
  readonly inDoubt: readonly KeyRowSummary[]
  readonly unfinished: BoundedCount
}

/** A page of the audit trail, newest first. */
export interface InterventionList {
  readonly rows: readonly ShownIntervention<RecordedIntervention>[]
  readonly next: string | null
}

/** Every failed request is answered with this. */
export interface ErrorAnswer {
  readonly error: {
    readonly code: string
    readonly message: string
    /** Of a refusal: who was first. */
    readonly by?: Pick<InterventionView, 'action' | 'actor' | 'reason' | 'at'> | null
    /** Of a refusal: the key as it is now. */
    readonly key?: KeyRowSummary
  }
}

/** What the server-sent events carry. */
export interface StreamEvents {
  readonly flow: Flow
  /** The database is away, or cannot be asked. */
  readonly gone: ErrorAnswer['error']
}
