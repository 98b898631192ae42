import type { StuckReason } from '../pipeline/outcome.js'
import { type Intent, INTENT_PHASE, KEY_COLUMNS, type KeyRow, readKeyRow, SERVER } from './key-row.js'
import {
  boundedBy,
  defineStatement,
  epochMs,
  msInterval,
  statusIs,
  type Store,
  unnested,
} from './statement.js'

/**
 * The right to write a key: every statement here is conditional on it. The recovery point is part of it, because after a
 * failover that lost commits the row can be at an earlier one than its holder believes, under the same fence and holder.
 */
export interface Hold {
  readonly id: string
  readonly fence: number
  readonly holder: string
  readonly recoveryPoint: string
}

const HELD = 'k.id = $1::uuid AND k.fence = $2::bigint AND k.holder = $3::uuid'

const raiseFenceStatement = defineStatement(
  'raise_fence',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET fence = k.fence + 1, holder = $4::uuid,
         lease_until = CASE WHEN k.status = 'running' THEN clock_timestamp() + ${msInterval('$5')} END
    FROM ${boundedBy('$6')}
   WHERE ${HELD}
  RETURNING ${KEY_COLUMNS}`,
)

/**
 * Settles an unknown COMMIT: waits for the lost transaction's row lock, and once this has committed, that one can no
 * longer. What it returns is the truth; null means that we were fenced off. Whatever the status and the recovery point:
 * the commit in doubt may have moved both, and a failover may have lost earlier ones.
 */
export async function raiseFence(
  store: Store,
  hold: Hold,
  by: { readonly holder: string; readonly leaseMs: number; readonly lockTimeoutMs: number },
): Promise<KeyRow | null> {
  const { rows } = await raiseFenceStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    by.holder,
    by.leaseMs,
    String(by.lockTimeoutMs),
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}

const declareCallStatement = defineStatement(
  'declare_call',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET intent = json_build_object('kind', 'calling', 'phase', $4::text,
                                    'deadlineMs', ${epochMs(`clock_timestamp() + ${msInterval('$5')}`)},
                                    'timeoutMs', $5::double precision, 'server', ${SERVER}),
         lease_until = clock_timestamp() + ${msInterval('$6')}, updated_at = clock_timestamp()
    FROM ${boundedBy('$7')}
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = $8
  RETURNING k.intent`,
)

/** Says durably that the call is about to be made, and gives what was declared. Null: fenced off. */
export async function declareCall(
  store: Store,
  hold: Hold,
  call: {
    readonly phase: string
    readonly timeoutMs: number
    readonly leaseMs: number
    readonly lockTimeoutMs: number
  },
): Promise<Intent | null> {
  const { rows } = await declareCallStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    call.phase,
    call.timeoutMs,
    call.leaseMs,
    String(call.lockTimeoutMs),
    hold.recoveryPoint,
  ])
  const declared = rows[0]?.['intent']
  return declared == null ? null : (JSON.parse(declared) as Intent)
}

/** How a key is given back. */
export interface GiveBack {
  /** Leaves lease and intent as they are, because a call of ours is still under way and will say what it came to. */
  readonly keepLease: boolean
  readonly runAfterMs: number
  /** An attempt counts towards the cap; a retry lengthens the back-off; nothing is as if it had not been granted. */
  readonly countsAs: 'attempt' | 'retry' | 'nothing'
  readonly raiseEpoch: boolean
  readonly intent: Intent | null
  readonly lastError: string | null
  readonly lockTimeoutMs: number
}

const giveBackKeyStatement = defineStatement(
  'give_back_key',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET lease_until = CASE WHEN $4::boolean THEN k.lease_until END,
         run_after = clock_timestamp() + ${msInterval('$5')},
         attempts = greatest(k.attempts - $6::integer, 0), retries = k.retries + $7::integer,
         effect_epoch = k.effect_epoch + $8::integer,
         intent = CASE WHEN $4::boolean THEN k.intent ELSE $9::json END,
         last_error = coalesce($10, k.last_error), updated_at = clock_timestamp()
    FROM ${boundedBy('$11')}
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = $12
  RETURNING k.id`,
)

/** Gives the key back. False: fenced off, and the new holder is left alone. */
export async function giveBackKey(store: Store, hold: Hold, giveBack: GiveBack): Promise<boolean> {
  const { rows } = await giveBackKeyStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    giveBack.keepLease,
    giveBack.runAfterMs,
    giveBack.countsAs === 'attempt' ? 0 : 1,
    giveBack.countsAs === 'retry' ? 1 : 0,
    giveBack.raiseEpoch ? 1 : 0,
    giveBack.intent === null ? null : JSON.stringify(giveBack.intent),
    giveBack.lastError,
    String(giveBack.lockTimeoutMs),
    hold.recoveryPoint,
  ])
  return rows.length === 1
}

const forgetKeyStatement = defineStatement(
  'forget_key',
  ({ keys }) => `
  DELETE FROM ${keys} AS k
   USING ${boundedBy('$4')}
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = 'started'
  RETURNING k.id`,
)

/** Deletes a key whose first phase has not committed, as if it had never been sent. False: fenced off. */
export async function forgetKey(store: Store, hold: Hold, lockTimeoutMs: number): Promise<boolean> {
  const { rows } = await forgetKeyStatement(store, [hold.id, hold.fence, hold.holder, String(lockTimeoutMs)])
  return rows.length === 1
}

const markKeyStuckStatement = defineStatement(
  'mark_stuck',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET status = 'stuck', stuck_reason = $4, lease_until = NULL, intent = $5::json,
         last_error = coalesce($6, k.last_error), updated_at = clock_timestamp()
    FROM ${boundedBy('$7')}
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = $8
  RETURNING k.id`,
)

/** Hands the key to a person. False: fenced off. */
export async function markKeyStuck(
  store: Store,
  hold: Hold,
  stuck: {
    readonly reason: StuckReason
    readonly intent: Intent | null
    readonly lastError: string | null
    readonly lockTimeoutMs: number
  },
): Promise<boolean> {
  const { rows } = await markKeyStuckStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    stuck.reason,
    stuck.intent === null ? null : JSON.stringify(stuck.intent),
    stuck.lastError,
    String(stuck.lockTimeoutMs),
    hold.recoveryPoint,
  ])
  return rows.length === 1
}

/** Whether what the row knows is of this phase's call: then, and after what is written here. */
const IS_OF_PHASE = `coalesce(${INTENT_PHASE} = $7::text, $8::boolean)`

const keepLateEndStatement = defineStatement(
  'keep_late_end',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET intent = CASE WHEN ${IS_OF_PHASE} THEN coalesce($4::json, k.intent) ELSE k.intent END,
         last_error = CASE WHEN ${IS_OF_PHASE} THEN coalesce($5, k.last_error) ELSE k.last_error END,
         updated_at = clock_timestamp()
    FROM ${boundedBy('$6')}
   WHERE ${HELD} AND ${statusIs('stuck')}
  RETURNING ${IS_OF_PHASE} AS kept`,
)

/**
 * Keeps what a call came to whose key was made stuck by this very holder while the call was under way. `of_another`: the
 * key is stuck by another call, and a row holds what is known of one. `decided`: somebody has decided about it since.
 */
export async function keepLateEnd(
  store: Store,
  hold: Hold,
  late: {
    readonly phase: string
    /** Whether it may be kept where the row knows of no call at all. */
    readonly alsoUndeclared: boolean
    readonly intent: Intent | null
    readonly lastError: string | null
    readonly lockTimeoutMs: number
  },
): Promise<'kept' | 'of_another' | 'decided'> {
  const { rows } = await keepLateEndStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    late.intent === null ? null : JSON.stringify(late.intent),
    late.lastError,
    String(late.lockTimeoutMs),
    late.phase,
    late.alsoUndeclared,
  ])
  if (rows[0] === undefined) return 'decided'
  return rows[0]['kept'] === 't' ? 'kept' : 'of_another'
}

const renewLeasesStatement = defineStatement(
  'renew_leases',
  ({ keys }) => `
  WITH held AS (
    SELECT * FROM ${unnested('$1::uuid[]', '$2::bigint[]', '$3::uuid[]', '$4::double precision[]', '$5::text[]')}
      AS h (id, fence, holder, lease_ms, recovery_point)
  ), free AS (
    SELECT k.id, h.lease_ms FROM ${keys} AS k JOIN held AS h
        ON k.id = h.id AND k.fence = h.fence AND k.holder = h.holder AND k.recovery_point = h.recovery_point
           AND ${statusIs('running')}
       FOR NO KEY UPDATE OF k SKIP LOCKED
  ), renewed AS (
    UPDATE ${keys} AS k SET lease_until = clock_timestamp() + ${msInterval('free.lease_ms')}
      FROM free WHERE k.id = free.id
    RETURNING k.holder
  )
  SELECT h.holder, renewed.holder IS NOT NULL AS renewed,
         k.id IS NULL OR k.fence <> h.fence OR k.holder <> h.holder OR k.recovery_point <> h.recovery_point
           OR k.status <> 'running' AS lost,
         ${epochMs('clock_timestamp()')} AS now_ms
    FROM held AS h LEFT JOIN ${keys} AS k ON k.id = h.id LEFT JOIN renewed ON renewed.holder = h.holder`,
)

export interface Renewal {
  /** By the holder, not the key: one engine may have two grants of a key, of which one is over. */
  readonly holder: string
  /** Neither renewed nor lost: the row is locked just now; the next tick tries again. */
  readonly result: 'renewed' | 'lost' | 'locked'
  readonly nowMs: number
}

/** Renews many leases in one statement. Rows that are locked are left for the next time instead of waited for. */
export async function renewLeases(
  store: Store,
  holds: readonly (Hold & { readonly leaseMs: number })[],
): Promise<Renewal[]> {
  const { rows } = await renewLeasesStatement(store, [
    holds.map((hold) => hold.id),
    holds.map((hold) => hold.fence),
    holds.map((hold) => hold.holder),
    holds.map((hold) => hold.leaseMs),
    holds.map((hold) => hold.recoveryPoint),
  ])
  return rows.map((row) => ({
    holder: row['holder'] ?? '',
    result: row['renewed'] === 't' ? 'renewed' : row['lost'] === 't' ? 'lost' : 'locked',
    nowMs: Number(row['now_ms']),
  }))
}
