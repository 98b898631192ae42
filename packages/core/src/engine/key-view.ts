import type { StoredResponse } from '../pipeline/directive.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { StuckReason } from '../pipeline/outcome.js'
import type { StateObject } from '../pipeline/phase.js'
import type { Intent, KeyRow } from '../storage/keys/key-row.js'

/** A key as a person would look at it. */
export interface KeyView {
  /** The row's id, which `engine.resume` takes. */
  readonly keyId: string
  /** The principal that owns the key. */
  readonly scope: string
  /** The client's Idempotency-Key. */
  readonly key: string
  /** Name of the pipeline that runs it. */
  readonly pipeline: string
  /** `atomic`: it belongs to an atomic handler, and only a request of its client can run it. */
  readonly kind: 'pipeline' | 'atomic'
  /** The version it is pinned to. */
  readonly version: number
  /** `running` covers everything up to the response; `lease` shows whether somebody is working on it. */
  readonly status: 'running' | 'finished' | 'stuck'
  /** Null unless stuck. */
  readonly stuckReason: StuckReason | null
  /** The last phase that committed, or was skipped. */
  readonly recoveryPoint: string
  /** The same for people: the last phase that ran and those skipped since, as in `shipment_booked (refunded skipped)`. */
  readonly point: string
  /** Grows by one with every grant of the key, when a person intervenes, and when a holder looks into a lost COMMIT. */
  readonly fence: number
  /** Null when nobody holds the key. `live` is judged by the database's clock. */
  readonly lease: { readonly until: Date; readonly live: boolean } | null
  /** Crashes and unknown errors since the last advance. */
  readonly attempts: number
  /** Orderly retries since the last advance. */
  readonly retries: number
  /** No automatic attempt before this moment. */
  readonly runAfter: Date | null
  /** What is known of a call that is not settled. */
  readonly call: {
    readonly phase: string
    readonly known: 'may_have_been_made' | 'returned' | 'not_made'
    /** What it returned, or what a person said it returned; null if that is not known. */
    readonly result: JsonValue
    /** It returned after the key had become stuck: if unstuck without a verdict, the key is settled with this result. */
    readonly late: boolean
  } | null
  /** Why protected values are not shown: `input`, `state` and others are then empty. Null where all are shown. */
  readonly sealed: string | null
  /** The last error since the last advance; redacted and shortened. */
  readonly lastError: string | null
  /** The recovery points reached, in order. */
  readonly trail: readonly {
    readonly point: string
    readonly at: Date
    readonly fence: number
    readonly skipped: boolean
    /** It was not known whether its call was executed, and `whenUnknown` went on without that. */
    readonly outcomeUnknown: boolean
  }[]
  /** As phases see it. */
  readonly input: JsonValue
  /** What phases returned, merged. */
  readonly state: StateObject
  /** Null unless finished. */
  readonly response: StoredResponse | null
  /** Grows by one at every write of the row: what was read with another one is out of date. */
  readonly revision: number
  /** The W3C `traceparent` of the request that reserved it; null where it was not traced. */
  readonly traceparent: string | null
  /** When the key was reserved. */
  readonly createdAt: Date
  /** When a person last unstuck it; null if nobody had to. */
  readonly unstuckAt: Date | null
  /** When the row was last written, not counting renewals of the lease. */
  readonly updatedAt: Date
  /** When a finished key may be deleted. Null unless finished. */
  readonly expiresAt: Date | null
}

export function viewKey(row: KeyRow): KeyView {
  const {
    id,
    scope,
    key,
    pipeline,
    kind,
    version,
    status,
    stuckReason,
    recoveryPoint,
    fence,
    attempts,
    retries,
    lastError,
    response,
    revision,
    traceparent,
  } = row
  return {
    keyId: id,
    scope,
    key,
    pipeline,
    kind,
    version,
    status,
    stuckReason,
    recoveryPoint,
    point: pointOf(row),
    fence,
    lease:
      row.leaseUntilMs === null
        ? null
        : { until: new Date(row.leaseUntilMs), live: row.leaseUntilMs > row.nowMs },
    attempts,
    retries,
    runAfter: dateOrNull(row.runAfterMs),
    call: row.intent === null ? null : viewCall(row.intent),
    sealed: row.sealed?.message ?? null,
    lastError,
    trail: row.trail.map(({ atMs, ...entry }) => ({ ...entry, at: new Date(atMs) })),
    input: JSON.parse(row.inputJson) as JsonValue,
    state: JSON.parse(row.stateJson) as StateObject,
    response,
    revision,
    traceparent,
    createdAt: new Date(row.createdMs),
    unstuckAt: dateOrNull(row.unstuckMs),
    updatedAt: new Date(row.updatedMs),
    expiresAt: dateOrNull(row.expiresMs),
  }
}

function viewCall(intent: Intent): NonNullable<KeyView['call']> {
  const { phase, kind } = intent
  const isKnown = kind === 'called'
  return {
    phase,
    known: KNOWN[kind],
    result: isKnown ? intent.result : null,
    late: isKnown && intent.late === true,
  }
}

const KNOWN = { calling: 'may_have_been_made', called: 'returned', not_made: 'not_made' } as const

/** In SQL: `POINT_TEXT`. */
function pointOf({ recoveryPoint, trail }: KeyRow): string {
  // The trail of an upgraded key names points of the older version.
  if (trail.at(-1)?.point !== recoveryPoint) return recoveryPoint
  const lastRun = trail.findLastIndex(({ skipped }) => !skipped)
  const skipped = trail.slice(lastRun + 1).map(({ point }) => point)
  if (skipped.length === 0) return recoveryPoint
  return `${trail[lastRun]?.point ?? 'started'} (${skipped.join(', ')} skipped)`
}

function dateOrNull(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}
