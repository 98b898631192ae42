import { randomUUID } from 'node:crypto'
import { crashKit } from '@pawl/crash-kit'
import pg from 'pg'
import { createRideWith } from '../src/create-ride.js'
import { createTables } from '../src/migrate.js'
import { stripePayments } from '../src/payments.js'
import { fakeStripe } from './fake-stripe.js'

const stripe = fakeStripe()
const rider = randomUUID()
const { DATABASE_URL: connectionString } = process.env

const kit = crashKit({
  pipeline: () => createRideWith(stripePayments('sk_test_any', new URL(stripe.url), 20_000)),
  provider: stripe,
  ...(connectionString ? { pool: new pg.Pool({ connectionString }) } : {}),
  prepare: async ({ pool, pawlSchema }) => {
    await createTables(pool, pawlSchema)
    await pool.query(`INSERT INTO users VALUES ($1, 'rider', 'pm_card_visa')`, [rider])
  },
  request: {
    scope: rider,
    input: { origin_lat: 37.77, origin_lon: -122.42, target_lat: 37.62, target_lon: -122.38 },
  },
})

await kit.exhaustive({ faults: ['crash', 'throw', 'lostCommitAck', 'providerTimeout'] })
await kit.races({ runs: 20 })
