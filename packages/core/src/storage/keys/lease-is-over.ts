import { CLOCK_WENT_BACK_MS } from '../../limits.js'
import { msInterval, NOW } from '../statement.js'

/** The row was written by a clock that has gone back since. `of`: the table's alias, and a dot. */
export const writtenAhead = (of: string): string =>
  `${of}updated_at > (${NOW} + ${msInterval(String(CLOCK_WENT_BACK_MS))})`

/**
 * Nobody holds the key: it was given back, its lease has run out, or the lease is longer than any that is granted here
 * and the row was written in the future. In that last case the clock it was granted by was ahead of this one, and whoever
 * got the lease has had its time, or renews it soon. A longer lease alone proves nothing: another deployment may grant
 * longer leases.
 */
export const leaseIsOver = (of: string, boundMs: string, rest = ''): string =>
  `(${of}lease_until IS NULL OR ${of}lease_until${rest} <= ${NOW}
          OR (${of}lease_until > (${NOW} + ${msInterval(boundMs)}) AND ${writtenAhead(of)}))`
