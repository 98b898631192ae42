import { randomUUID } from 'node:crypto'
import { type CrashKit, crashKit, type FaultName } from '@pawl/crash-kit'
import pg from 'pg'
import { describe } from 'vitest'
import { createRideWith } from '../src/create-ride.js'
import { createTables } from '../src/migrate.js'
import { stripePayments } from '../src/payments.js'
import { fakeStripe } from './fake-stripe.js'

/** The SDK by itself repeats what a broken connection has lost, hence providerDisconnect. */
const FAULTS = 'crash,throw,lostCommitAck,providerTimeout,providerDisconnect'

/** More of everything: `RIDES_DEPTH=2 RIDES_RACES=500 npm test -- create-ride.crash`. */
const { DATABASE_URL, RIDES_FAULTS = FAULTS, RIDES_DEPTH = '1', RIDES_RACES = '10' } = process.env

/** `LAYOUT=partitioned` runs all of it on divided tables. */
const layout = process.env['LAYOUT'] === 'partitioned' ? 'partitioned' : 'plain'

/** As the SDK is told in production: below the 30 s that the engine gives a call. */
const STRIPE_TIMEOUT_MS = 20_000

/**
 * Crash tests of a rider with this card: the pipeline of the service, through Stripe's own SDK, on tables of the
 * service's own migration.
 *
 * Without the `graphileStager` of `server.ts`: its jobs go into the tables of graphile-worker, which the kit neither
 * watches nor cleans up. So jobs are staged in Pawl's own table, where the kit sees that each is there exactly when its
 * phase committed. `@pawl/graphile-worker` has tests of its own for the rest.
 */
function kitFor(card: string): CrashKit {
  const stripe = fakeStripe()
  const rider = randomUUID()
  return crashKit({
    pipeline: () => createRideWith(stripePayments('sk_test_any', new URL(stripe.url), STRIPE_TIMEOUT_MS)),
    provider: stripe,
    // Without it, the kit starts a PostgreSQL of its own.
    ...(DATABASE_URL ? { pool: new pg.Pool({ connectionString: DATABASE_URL }) } : {}),
    prepare: async ({ pool, pawlSchema }) => {
      await createTables(pool, layout, pawlSchema)
      const columns = '(id, payment_method, token)'
      await pool.query(`INSERT INTO users ${columns} VALUES ($1, $2, 'any')`, [rider, card])
    },
    layout,
    engine: { namespace: 'rides' },
    child: { module: new URL('./create-ride.child.mjs', import.meta.url) },
    request: {
      scope: rider,
      input: { origin_lat: 37.77, origin_lon: -122.42, target_lat: 37.62, target_lon: -122.38 },
    },
  })
}

describe('a rider who is charged', async () => {
  const kit = kitFor('pm_card_visa')
  await kit.exhaustive({
    faults: RIDES_FAULTS.split(',') as FaultName[],
    depth: RIDES_DEPTH === '2' ? 2 : 1,
  })
  await kit.races({ runs: Number(RIDES_RACES) })
  // Once with a real process and a real SIGKILL.
  await kit.replay('process: crash@charge_created/call#1:after')
})

describe('a rider whose card is declined', async () => {
  // Ends early, in the middle of the pipeline, which the reaper has to handle as well.
  await kitFor('pm_card_chargeDeclined').exhaustive({ faults: ['crash', 'reaper'] })
})
