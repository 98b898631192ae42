import { type Hold, WRITTEN } from './hold.js'
import {
  CLOCK,
  defineStatement,
  eachGiven,
  epochMs,
  momentIn,
  NOW,
  statusIs,
  type Store,
} from '../statement.js'

const HELD = {
  scope: '$1::text[]',
  key: '$2::text[]',
  fence: '$3::bigint[]',
  holder: '$4::uuid[]',
  lease_ms: '$5::double precision[]',
  recovery_point: '$6::text[]',
}

const renewLeasesStatement = defineStatement(
  'renew_leases',
  (tables) => `
  WITH held AS (
    SELECT each.* FROM ${eachGiven(tables, HELD)}
  ), free AS (
    SELECT k.scope, k.key, h.lease_ms FROM ${tables.keys} AS k JOIN held AS h
        ON k.scope = h.scope AND k.key = h.key AND k.fence = h.fence AND k.holder = h.holder
           AND k.recovery_point = h.recovery_point AND ${statusIs('running')}${tables.ofOneShard('k')}
       FOR NO KEY UPDATE OF k SKIP LOCKED
  ), renewed AS (
    UPDATE ${tables.keys} AS k SET lease_until = ${momentIn('free.lease_ms / 1000')}, ${WRITTEN}
      FROM free, ${CLOCK} WHERE k.scope = free.scope AND k.key = free.key${tables.ofOneShard('k')}
    RETURNING k.holder
  )
  SELECT h.holder, renewed.holder IS NOT NULL AS renewed,
         k.key IS NULL OR k.fence <> h.fence OR k.holder <> h.holder OR k.recovery_point <> h.recovery_point
           OR k.status <> 'running' AS lost,
         ${epochMs(NOW)} AS now_ms
    FROM held AS h LEFT JOIN ${tables.keys} AS k ON k.scope = h.scope AND k.key = h.key${tables.ofOneShard('k')}
    LEFT JOIN renewed ON renewed.holder = h.holder`,
)

export interface Renewal {
  /** Identified by the holder, not the key: one engine may have two grants of a key, one of which is over. */
  readonly holder: string
  /** `locked` is neither renewed nor lost: the row is locked just now, and the next tick tries again. */
  readonly result: 'renewed' | 'lost' | 'locked'
  readonly nowMs: number
}

/** Renews many leases in one statement; over servers, all have to be in one shard. Locked rows are left for the next time instead of being waited for. */
export async function renewLeases(
  store: Store,
  holds: readonly (Hold & { readonly leaseMs: number })[],
): Promise<Renewal[]> {
  const { rows } = await renewLeasesStatement(store, [
    holds.map((hold) => hold.scope),
    holds.map((hold) => hold.key),
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
