import { pawl } from '@pawl/core'
import type { Generated } from 'kysely'

/** The application's tables, in the database's default schema. `migrate.ts` creates them. */
export interface Database {
  users: {
    id: Generated<string>
    token: string
    /** The rider's card, as the payments provider knows it. */
    payment_method: string
  }
  rides: {
    id: Generated<string>
    user_id: string
    /** The request that created the ride; null once that has expired. */
    key_id: string | null
    origin_lat: number
    origin_lon: number
    target_lat: number
    target_lon: number
    amount: number
    currency: string
    /** The payment at the provider; null until the rider is charged. */
    charge_id: string | null
    created_at: Generated<Date>
  }
  audit_records: {
    id: Generated<string>
    action: string
    user_id: string
    resource_id: string
    created_at: Generated<Date>
  }
}

export const { pipeline, createEngine } = pawl<Database>()
