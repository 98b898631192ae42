/**
 * The right to write a key, which every write of a holder names. `HELD` compares fence and holder. Statements that must not
 * run at another point compare `recovery_point` themselves, because after a failover that lost commits the row can be at an
 * earlier one than its holder believes, under the same fence and holder. `raise_fence` and `keep_late_end` accept any point.
 */
export interface Hold {
  readonly id: string
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

/** Part of every SET: a reader can tell by the revision that the row has changed. */
export const WRITTEN = 'revision = k.revision + 1'
