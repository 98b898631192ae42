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

export const HELD = 'k.id = $1::uuid AND k.fence = $2::bigint AND k.holder = $3::uuid'
