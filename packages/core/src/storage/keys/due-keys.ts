import { BACKOFF_BASE_MS, BACKOFF_MAX_MS } from '../../limits.js'
import { leaseIsOver, writtenAhead } from './lease-is-over.js'
import { NOW } from '../statement.js'

/** A version whose keys may be run here. */
export interface RunnableVersion {
  readonly pipeline: string
  readonly version: number
  /** Null stands for any, because a newer version declares how to continue from it. */
  readonly definitionHash: string | null
  /** A lease that ends later than this from now counts as over. */
  readonly leaseBoundMs: number
}

/** A place among the keys of a version, which are ordered by creation time, then by id. */
export interface Place {
  /** As PostgreSQL prints it, to the microsecond. */
  readonly createdAt: string
  readonly id: string
}

/** Before the first key. */
export const AT_START: Place = { createdAt: '-infinity', id: '00000000-0000-0000-0000-000000000000' }

/** A key that nobody holds and that is due. */
export interface DueKey extends Place {
  readonly scope: string
  readonly key: string
  /** The index of its version among the versions asked for. */
  readonly version: number
}

/**
 * A key that crashed its holder more than once waits longer each time, or a poison request would kill one process after
 * the other. Full jitter, derived from the row itself: every process arrives at the same moment, and nothing is written.
 */
const REST_AFTER_CRASH = `CASE WHEN k.attempts < 2 THEN interval '0' ELSE
           least(${BACKOFF_MAX_MS}, ${BACKOFF_BASE_MS} * (2 ^ least(k.attempts, 30)))
           * (((hashint8(k.fence) # hashtext(k.id::text)) & 2147483647) % 1000) / 1000.0 * interval '1 millisecond' END`

/** ISO 8601 in UTC, whatever the session's settings. */
export const asText = (moment: string): string =>
  `pg_catalog.to_char(pg_catalog.timezone('UTC'::text, ${moment}), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text)`

/** There is no point in waiting for the end of a back-off that was set by a clock that has gone back since. */
const IS_RESTED = `(k.run_after IS NULL OR k.run_after <= ${NOW}
                     OR ${writtenAhead('k.')})`

/** Whether a key of the version `v`, which is a row or the parameters, is due and comes after the place given. */
export const isDue = (v: Record<'hash' | 'leaseBoundMs' | 'afterCreated' | 'afterId', string>): string => `
            (k.created_at, k.id) > (${v.afterCreated}, ${v.afterId})
        AND (${v.hash} IS NULL OR k.definition_hash = ${v.hash})
        AND ${leaseIsOver('k.', v.leaseBoundMs, ` + ${REST_AFTER_CRASH}`)}
        AND ${IS_RESTED}`

export function readDueKey(row: Readonly<Record<string, string | null>>, version: number): DueKey {
  return {
    id: row['id'] ?? '',
    scope: row['scope'] ?? '',
    key: row['key'] ?? '',
    createdAt: row['created_at'] ?? '',
    version,
  }
}
