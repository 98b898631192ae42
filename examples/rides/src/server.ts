import { graphileStager } from '@pawl/graphile-worker'
import pg from 'pg'
import { buildApp } from './app.js'
import { readConfig } from './config.js'
import { createRideWith } from './create-ride.js'
import { createEngine } from './database.js'
import { drainOnSignal, exitOnError } from './process.js'
import { migrate } from './migrate.js'
import { stripePayments } from './payments.js'

/** The API's process. Any number of them may share one database. */
async function main(): Promise<void> {
  const config = readConfig(process.env)
  const pool = new pg.Pool({ connectionString: config.databaseUrl, max: config.poolMax })
  // An idle connection that breaks is replaced; without a listener it would end the process.
  pool.on('error', (error) => console.error(error.message))
  await migrate(pool)

  const { stripeApiKey, stripeApiBase, stripeTimeoutMs } = config
  const createRide = createRideWith(stripePayments(stripeApiKey, stripeApiBase, stripeTimeoutMs))
  const engine = createEngine({
    pool,
    pipelines: [createRide],
    namespace: 'rides',
    stager: graphileStager(),
    ...(config.leaseMs === null ? {} : { defaults: { leaseMs: config.leaseMs } }),
  })

  const app = await buildApp({ engine, createRide, logger: true })
  drainOnSignal(async () => {
    await app.close()
    await pool.end()
  })
  await app.listen({ host: config.host, port: config.port })
}

await main().catch(exitOnError)
