import { createBackground, createOperator, logTo } from '@pawl/core'
import { graphileStager } from '@pawl/graphile-worker'
import { buildApp } from './app.js'
import { readConfig } from './config.js'
import { createRideWith } from './create-ride.js'
import { createEngine } from './database.js'
import { graphileQueue } from './graphile-queue.js'
import { guardOptions, limitOptions } from './guard-options.js'
import { migrate } from './migrate.js'
import { openCache } from './open-cache.js'
import { openConsole } from './open-console.js'
import { openPool } from './open-pool.js'
import { openTelemetry } from './open-telemetry.js'
import { stripePayments } from './payments.js'
import { drainOnSignal, exitOnError } from './process.js'

/** An INSERT into a queue takes milliseconds. What a process that dies has claimed waits for twice as long. */
const QUEUE_TIMEOUT_MS = 5_000

/** The API's process. Any number of them may share one database. */
async function main(): Promise<void> {
  const config = readConfig(process.env)
  const pool = openPool(config)
  await migrate(pool, config.layout)

  const { stripeApiKey, stripeApiBase, stripeTimeoutMs } = config
  const createRide = createRideWith(stripePayments(stripeApiKey, stripeApiBase, stripeTimeoutMs), {
    retentionMs: config.retentionMs,
    namesCharge: config.protectKey === null,
  })
  const cached = config.redisUrl === null ? null : await openCache(config.redisUrl)
  const telemetry = await openTelemetry(config)
  const engine = createEngine({
    pool,
    pipelines: [createRide],
    namespace: 'rides',
    // For the console and whoever asks the operator: who sends the same again and again.
    countDuplicates: true,
    // Where rides are on several servers, the queue is on one of them, and not atomic with the others: a relay fills it.
    ...(config.layout === 'citus' ? {} : { stager: graphileStager() }),
    ...guardOptions(config),
    ...limitOptions(config),
    ...(cached === null ? {} : { cache: cached.cache }),
  })

  telemetry?.watch(engine, createOperator({ pool }))

  const { waitersPerScope } = config
  const app = await buildApp({ engine, createRide, logger: true, waitersPerScope })
  logTo(app.log)
  if (telemetry?.metricsUrl) app.log.info(`metrics are at ${telemetry.metricsUrl}`)
  const console = await openConsole(config, app.log)
  // No relay otherwise: `graphileStager` puts jobs straight into their queue.
  const background = createBackground({
    engine,
    ...(config.background === 'on' ? {} : { completer: false, reaper: false }),
    ...(config.layout === 'citus'
      ? { relay: { sink: graphileQueue(pool), deliverTimeoutMs: QUEUE_TIMEOUT_MS } }
      : {}),
  })
  drainOnSignal(async () => {
    // Concurrently: from here on neither begins anything, and neither waits for the other to end what it has begun.
    await Promise.all([background.stop(), app.close(), console?.close()])
    cached?.close()
    await telemetry?.close()
    await pool.end()
  })
  await app.listen({ host: config.host, port: config.port })
  background.start()
}

await main().catch(exitOnError)
