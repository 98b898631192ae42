import { DBOS } from '@dbos-inc/dbos-sdk'
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
import type { Answer, Contender, ContenderOptions, Opened } from '../contender.js'
import { openCharges, type Charges } from '../provider/charge.js'
import { inTransaction } from './in-transaction.js'
import { openPool, runSql } from './open-pool.js'

/** For the business tables and for those of DBOS. */
const SCHEMA = 'bench_dbos'

/**
 * A request whose first is still running waits for the first's answer, and asks for it this often. DBOS's default of a
 * second would be most of its latency; much less, and hundreds who wait would keep the database busy.
 */
const DUPLICATE_POLL_MS = 50

/** What the steps work with. DBOS is one per process, and its workflows are registered before it is launched. */
let resources: { readonly pool: Pool; readonly charges: Charges } | undefined

const createRide = DBOS.registerWorkflow(
  async (key: string): Promise<Answer> => {
    const ride = await DBOS.runStep(insertRide, { name: 'insertRide' })
    const charge = await DBOS.runStep(() => chargeFor(ride, key), { name: 'charge' })
    await DBOS.runStep(() => finish(ride, charge), { name: 'finish' })
    return createdAnswer(ride, charge)
  },
  { name: 'createRide' },
)

async function insertRide(): Promise<string> {
  const { rows } = await opened().pool.query<{ id: string }>(INSERT_RIDE, rideValues())
  return rows[0]?.id ?? ''
}

async function chargeFor(ride: string, key: string): Promise<string> {
  const charge = await opened().charges.charge({ amount: RIDE.amount, ride }, `${RIDE.scope}-${key}`)
  return charge.id
}

async function finish(ride: string, charge: string): Promise<void> {
  await inTransaction(opened().pool, 'READ COMMITTED', async (client) => {
    await client.query(SET_CHARGE, [charge, ride])
    await client.query(INSERT_JOB, jobValues(ride))
  })
}

function opened(): NonNullable<typeof resources> {
  if (resources === undefined) throw new Error('DBOS runs a workflow, but the contender is not open.')
  return resources
}

/**
 * A durable workflow whose id is the key: a repeat returns the stored result.
 *
 * Its steps are plain ones, each checkpointed after it has committed: a crash between the two repeats the step, and a
 * second ride or job is possible. DBOS has data sources that rule this out, with a checkpoint in the business transaction
 * on top; the released ones that we could install call functions that version 5 no longer has. They would take more
 * statements and one more commit per request, so the figures here flatter DBOS rather than the opposite.
 */
export const dbos: Contender = {
  name: 'dbos',
  title: 'DBOS Transact',

  async prepare(databaseUrl) {
    await runSql(databaseUrl, businessTables(SCHEMA, { withJobs: true }))
    await DBOS.migrate(databaseUrl, { schemaName: SCHEMA })
  },

  async open({ databaseUrl, providerUrl, poolSize, providerDelayMs }: ContenderOptions): Promise<Opened> {
    if (resources !== undefined) throw new Error('DBOS is one per process: close the one that is open first.')
    const pool = openPool(databaseUrl, SCHEMA, poolSize)
    // A pool of the same size for its own tables: a step that holds a connection never keeps a checkpoint waiting.
    const systemPool = openPool(databaseUrl, SCHEMA, poolSize)
    const charges = openCharges(providerUrl, providerDelayMs)
    resources = { pool, charges }

    DBOS.setConfig({
      name: 'bench',
      // Otherwise it is computed from the code of the workflows.
      applicationVersion: '1',
      systemDatabaseUrl: databaseUrl,
      systemDatabasePool: systemPool,
      systemDatabaseSchemaName: SCHEMA,
      runMigrations: false,
      // Repeats read their results through all connections, not through half of them.
      systemDatabasePollingConcurrency: poolSize,
      // Nothing here sends messages or events; the listener would take a connection from the pool.
      useListenNotify: false,
      enableOTLP: false,
      tracingEnabled: false,
      logLevel: 'error',
    })
    await DBOS.launch()

    return {
      async request(key) {
        const handle = await DBOS.startWorkflow(createRide, { workflowID: key })(key)
        return handle.getResult({ pollingIntervalMs: DUPLICATE_POLL_MS })
      },
      async close() {
        await DBOS.shutdown()
        resources = undefined
        charges.close()
        await Promise.all([systemPool.end(), pool.end()])
      },
    }
  },
}
