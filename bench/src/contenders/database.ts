import type { Generated } from 'kysely'

/** The application's tables, as Kysely sees them. */
export interface Database {
  rides: {
    id: Generated<string>
    scope: string
    origin: string
    target: string
    amount: number
    charge_id: string | null
    created_at: Generated<Date>
  }
}
