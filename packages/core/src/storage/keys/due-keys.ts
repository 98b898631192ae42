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

/** A key that nobody holds and that is due. */
export interface DueKey {
  readonly id: string
  readonly scope: string
  readonly key: string
}

/** What one look found. */
export interface DueKeys {
  readonly keys: readonly DueKey[]
  /** Whether there are no more than these. */
  readonly areAll: boolean
}

/**
 * A key that crashed its holder more than once waits longer each time, or a poison request would kill one process after
 * the other. Full jitter, derived from the row itself: every process arrives at the same moment, and nothing is written.
 */
const REST_AFTER_CRASH = `CASE WHEN k.attempts < 2 THEN interval '0' ELSE
           least(${BACKOFF_MAX_MS}, ${BACKOFF_BASE_MS} * (2 ^ least(k.attempts, 30)))
           * (((hashint8(k.fence) # hashtext(k.id::text)) & 2147483647) % 1000) / 1000.0 * interval '1 millisecond' END`

/** There is no point in waiting for the end of a back-off that was set by a clock that has gone back since. */
const IS_RESTED = `(k.run_after IS NULL OR k.run_after <= ${NOW}
                     OR ${writtenAhead('k.')})`

/** Whether nobody holds the key and its time has come. */
export const isDueBy = (leaseBoundMs: string): string => `
            ${leaseIsOver('k.', leaseBoundMs, ` + ${REST_AFTER_CRASH}`)}
        AND ${IS_RESTED}`

/** Whether a key of the version `v`, which is a row or the parameters, is due. */
export const isDue = (v: Record<'hash' | 'leaseBoundMs', string>): string => `
            (${v.hash} IS NULL OR k.definition_hash = ${v.hash})
        AND ${isDueBy(v.leaseBoundMs)}`

export function readDueKey(row: Readonly<Record<string, string | null>>): DueKey {
  return { id: row['id'] ?? '', scope: row['scope'] ?? '', key: row['key'] ?? '' }
}
