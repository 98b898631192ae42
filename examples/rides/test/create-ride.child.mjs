// The pipeline for processes that the crash kit starts and kills: they run what was built.
import { createRideWith } from '../dist/create-ride.js'
import { stripePayments } from '../dist/payments.js'

const STRIPE_TIMEOUT_MS = 20_000

export default ({ providerUrl }) =>
  createRideWith(stripePayments('sk_test_any', new URL(providerUrl), STRIPE_TIMEOUT_MS))
