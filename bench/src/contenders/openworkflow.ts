import { OpenWorkflow } from 'openworkflow'
import { BackendPostgres } from 'openworkflow/postgres'
import postgres from 'postgres'
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

/** For the business tables and for those of openworkflow. */
const SCHEMA = 'bench_openworkflow'

/**
 * Workflows at a time: as many as the most clients of fresh requests. Every free slot asks for work with a statement of
 * its own, one to two times a second while there is none.
 */
const WORKER_CONCURRENCY = 256

/**
 * A workflow run whose idempotency key is the key: a repeat within a day returns the stored result.
 *
 * It is made for work in the background. Its worker and whoever awaits a result both poll, and neither interval can be
 * set: an idle worker looks again after 50 ms to 1 s, and `result()` after 1 s. So a lone fresh request takes a second,
 * however fast the rest is. Steps are checkpointed after they have committed: a crash between the two repeats the step.
 */
export const openworkflow: Contender = {
  name: 'openworkflow',
  title: 'openworkflow',

  async prepare(databaseUrl) {
    await runSql(databaseUrl, businessTables(SCHEMA, { withJobs: true }))
    // Connecting makes its tables.
    const backend = await BackendPostgres.connect(databaseUrl, { schema: SCHEMA })
    await backend.stop()
  },

  async open({ databaseUrl, providerUrl, poolSize, providerDelayMs }: ContenderOptions): Promise<Opened> {
    const pool = openPool(databaseUrl, SCHEMA, poolSize)
    const charges = openCharges(providerUrl, providerDelayMs)
    // As `BackendPostgres.connect` makes it, which takes no size for its pool.
    const sql = postgres(databaseUrl, {
      max: poolSize,
      transform: { column: { from: postgres.toCamel } },
    })
    const backend = BackendPostgres.fromPool(sql, { schema: SCHEMA })
    const client = new OpenWorkflow({ backend })

    const createRide = client.defineWorkflow<{ key: string }, Answer>(
      { name: 'create-ride' },
      async ({ input, step }): Promise<Answer> => {
        const ride = await step.run({ name: 'insert-ride' }, async () => {
          const { rows } = await pool.query<{ id: string }>(INSERT_RIDE, rideValues())
          return rows[0]?.id ?? ''
        })
        const charge = await step.run({ name: 'charge' }, () =>
          charges.charge({ amount: RIDE.amount, ride }, `${RIDE.scope}-${input.key}`),
        )
        await step.run({ name: 'finish' }, () =>
          inTransaction(pool, 'READ COMMITTED', async (tx) => {
            await tx.query(SET_CHARGE, [charge.id, ride])
            await tx.query(INSERT_JOB, jobValues(ride))
          }),
        )
        return createdAnswer(ride, charge.id)
      },
    )

    const worker = client.newWorker({ concurrency: WORKER_CONCURRENCY })
    await worker.start()

    return {
      async request(key) {
        const handle = await createRide.run({ key }, { idempotencyKey: key })
        return handle.result()
      },
      async close() {
        await worker.stop()
        await backend.stop()
        charges.close()
        await pool.end()
      },
    }
  },
}
