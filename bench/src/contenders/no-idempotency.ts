import { randomUUID } from 'node:crypto'
import {
  businessTables,
  createdAnswer,
  INSERT_JOB,
  INSERT_RIDE,
  jobValues,
  RIDE,
  rideValues,
  SET_CHARGE,
} from '../business.js'
import type { Answer, Contender, ContenderOptions, Opened } from '../contender.js'
import { openCharges } from '../provider/charge.js'
import { inTransaction } from './in-transaction.js'
import { openPool, runSql } from './open-pool.js'

const SCHEMA = 'bench_no_idempotency'

/** The same work with no key at all: a retry is a second ride and a second charge, and a crash leaves half of one. */
export const noIdempotency: Contender = {
  name: 'no-idempotency',
  title: 'no idempotency at all',

  prepare: (databaseUrl) => runSql(databaseUrl, businessTables(SCHEMA, { withJobs: true })),

  async open({ databaseUrl, providerUrl, poolSize, providerDelayMs }: ContenderOptions): Promise<Opened> {
    const pool = openPool(databaseUrl, SCHEMA, poolSize)
    const charges = openCharges(providerUrl, providerDelayMs)

    async function request(): Promise<Answer> {
      const { rows } = await pool.query<{ id: string }>(INSERT_RIDE, rideValues())
      const ride = rows[0]?.id ?? ''
      const charge = await charges.charge({ amount: RIDE.amount, ride }, randomUUID())
      await inTransaction(pool, 'READ COMMITTED', async (client) => {
        await client.query(SET_CHARGE, [charge.id, ride])
        await client.query(INSERT_JOB, jobValues(ride))
      })
      return createdAnswer(ride, charge.id)
    }

    return {
      request,
      async close() {
        charges.close()
        await pool.end()
      },
    }
  },
}
