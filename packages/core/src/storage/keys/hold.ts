/**
 * The right to write a key: every statement here is conditional on it. The recovery point is part of it, because after a
 * failover that lost commits the row can be at an earlier one than its holder believes, under the same fence and holder.
 */
export interface Hold {
  readonly scope: string
  readonly key: string
  readonly fence: number
  readonly holder: string
  readonly recoveryPoint: string
}

/** The row is named by scope and key, so that a table that is divided by scope is asked in one place. */
export const HELD = 'k.scope = $1 AND k.key = $2 AND k.fence = $3::bigint AND k.holder = $4::uuid'

/** The values of `HELD`. */
export const heldBy = ({ scope, key, fence, holder }: Hold): unknown[] => [scope, key, fence, holder]

/** What every write of a row does besides: whoever has read it can tell that it has changed. */
export const WRITTEN = 'revision = k.revision + 1'
