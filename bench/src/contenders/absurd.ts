import { readFile } from 'node:fs/promises'
import { Absurd, type TaskContext } from 'absurd-sdk'
import type { Pool } from 'pg'
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
import type { Answer, Contender, Opened } from '../contender.js'
import { openCharges, type Charges } from '../provider/charge.js'
import { absurdSchemaFile } from './absurd-schema-file.js'
import { inTransaction } from './in-transaction.js'
import { openPool, runSql } from './open-pool.js'

/** For the business tables. Those of Absurd are in a schema whose name is fixed. */
const SCHEMA = 'bench_absurd'

const QUEUE = 'rides'
const TASK = 'create-ride'

/** Tasks at a time: more than the clients of any scenario, so that none waits for a free slot. */
const WORKER_CONCURRENCY = 512

/**
 * How often an idle worker looks for tasks. The default of a quarter of a second would be most of a lone request's latency. Who
 * waits for a result asks after 50 ms, 100 ms, and so on; that is fixed in its code, so looking more often would gain little.
 */
const POLL_SECONDS = 0.05

const silent = { log() {}, info() {}, warn() {}, error() {} }

/**
 * A task whose idempotency key is the key, run by a worker in the same process: a repeat returns the stored result. Steps are
 * checkpointed after they have committed: a crash between the two repeats the step.
 */
export const absurd: Contender = {
  name: 'absurd',
  title: 'Absurd',

  async prepare(databaseUrl) {
    const schema = await readFile(absurdSchemaFile(), 'utf8')
    await runSql(databaseUrl, businessTables(SCHEMA, { withJobs: true }))
    await runSql(databaseUrl, `DROP SCHEMA IF EXISTS absurd CASCADE;\n${schema}`)
    const app = new Absurd({ db: databaseUrl, queueName: QUEUE, log: silent })
    await app.createQueue()
    await app.close()
  },

  async open({ databaseUrl, providerUrl, poolSize, providerDelayMs }): Promise<Opened> {
    const pool = openPool(databaseUrl, SCHEMA, poolSize)
    // A pool of the same size for its own tables: a step that holds a connection never keeps a checkpoint waiting.
    const systemPool = openPool(databaseUrl, SCHEMA, poolSize)
    const charges = openCharges(providerUrl, providerDelayMs)
    const app = new Absurd({ db: systemPool, queueName: QUEUE, log: silent })
    app.registerTask<{ key: string }, Answer>({ name: TASK }, ({ key }, ctx) =>
      createRide(ctx, pool, charges, key),
    )
    await app.startWorker({ concurrency: WORKER_CONCURRENCY, pollInterval: POLL_SECONDS })
    return {
      async request(key) {
        const { taskID } = await app.spawn(TASK, { key }, { idempotencyKey: key })
        const snapshot = await app.awaitTaskResult(taskID)
        if (snapshot.state !== 'completed') throw new Error(`The task is ${snapshot.state}.`)
        return snapshot.result as unknown as Answer
      },
      async close() {
        await app.close()
        charges.close()
        await Promise.all([systemPool.end(), pool.end()])
      },
    }
  },
}

async function createRide(ctx: TaskContext, pool: Pool, charges: Charges, key: string): Promise<Answer> {
  const ride = await ctx.step('insert-ride', async () => {
    const { rows } = await pool.query<{ id: string }>(INSERT_RIDE, rideValues())
    return rows[0]?.id ?? ''
  })
  const charge = await ctx.step('charge', () =>
    charges.charge({ amount: RIDE.amount, ride }, `${RIDE.scope}-${key}`),
  )
  await ctx.step('finish', () =>
    inTransaction(pool, 'READ COMMITTED', async (client) => {
      await client.query(SET_CHARGE, [charge.id, ride])
      await client.query(INSERT_JOB, jobValues(ride))
    }),
  )
  return createdAnswer(ride, charge.id)
}
