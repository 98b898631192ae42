import { createEngine, pawl } from '@pawl/core'
import type pg from 'pg'

export interface Database {
  rides: { id: string; charge_id: string | null }
}

interface OtherDatabase {
  invoices: { id: string }
}

export const { pipeline } = pawl<Database>()
export const other = pawl<OtherDatabase>()
export declare const pool: pg.Pool

/** A pipeline with nothing wrong about it, to be used wrongly. */
export const right = pipeline<{ amount: number }>({ name: 'right', version: 1 })
  .local('created', () => ({ rideId: 'r' }))
  .finish(() => ({}) as never)

export const engine = createEngine<Database>({ pool, pipelines: [right] })
