import { afterAll, expect, test } from 'vitest'
import { amountOf } from '../support/amounts.js'
import { conclude } from './conclude.js'
import { type Broken, judgeRequests } from './judge-requests.js'
import { unrecordedRows } from './unrecorded-rows.js'
import { boundariesOf, casesOf, runUntilStruck, several, type SweepCase, type SweepOptions } from './sweep.js'
import { type Boundary, type Fault, FAULTS } from './strike.js'
import { oneWholeRide, prepareRides, RIDE_SHAPE, RIDE_TABLES, WireRides } from './wire-ride.js'
import { SETTINGS, WireTrial } from './wire-trial.js'
import { createRideOf, type Database, type RideInput, writingRideOf } from '../support/rides.js'

/** How many cases run at the same time. Most of them wait for a lease, or for the server to end a transaction. */
const AT_ONCE = 16

const trial = await WireTrial.open(prepareRides)
afterAll(() => trial.close())

const ARE_ALL_ASKED_FOR = amountOf('wireAll') === 1

/** Many times what it takes on an idle machine. */
const TIMEOUT_MS = ARE_ALL_ASKED_FOR ? 900_000 : 300_000

/** The other ways to send are deep. */
const SENDING = [
  { commits: 'each', rideOf: createRideOf, sending: {}, faults: FAULTS },
  // Rows that travel with the commit make for the longest messages.
  { commits: 'fewest', rideOf: writingRideOf, sending: {}, faults: FAULTS },
  { commits: 'each', rideOf: createRideOf, sending: { pipelining: false }, faults: FAULTS },
  { commits: 'each', rideOf: createRideOf, sending: { preparedStatements: true }, faults: FAULTS },
] as const

/** Of so many messages, one meets a fault, unless all are asked for. */
const ONE_MESSAGE_IN = 3

/** Every fault at every message, or one fault at some messages, in turn. */
function casesAt(boundaries: readonly Boundary[], faults: readonly Fault[]): SweepCase[] {
  if (ARE_ALL_ASKED_FOR) return casesOf(boundaries, faults)
  const some = boundaries.filter((_, at) => at % ONE_MESSAGE_IN === 0)
  return some.flatMap((boundary, at) => {
    const possible = casesOf([boundary], faults)
    return possible.slice(at % possible.length).slice(0, 1)
  })
}

test.each(ARE_ALL_ASKED_FOR ? SENDING : SENDING.slice(0, 2))(
  'a ride survives faults at its messages, with $commits commits, sent with $sending',
  async ({ commits, rideOf, sending, faults }) => {
    const startedAt = performance.now()
    const { pipeline, inputOf } = WireRides.shipped(trial.provider, rideOf)
    const options: SweepOptions<Database, RideInput> = {
      trial,
      pipeline,
      inputOf,
      defaults: { ...SETTINGS, commits },
      ...sending,
    }
    const boundaries = await boundariesOf(options)
    const mark = await trial.database.mark()
    const cases = casesAt(boundaries, faults)
    const runs = await several(cases, AT_ONCE, (each) => runUntilStruck(options, each))
    const swept = runs.flat()
    const requests = swept.map(({ request }) => request)
    const rounds = await conclude(trial, requests, [pipeline])
    const broken: Broken[] = [
      ...(await judgeRequests(
        trial,
        mark,
        requests.map((request) => ({ request, shape: RIDE_SHAPE, more: oneWholeRide })),
        rounds,
      )),
      ...swept.flatMap(({ request, violations }) =>
        violations.map((violation) => ({ ...violation, scope: request.scope })),
      ),
      ...(await unrecordedRows(trial.database, RIDE_TABLES)).map((each) => ({ ...each, scope: '' })),
      ...(await trial.leftovers()).map((each) => ({ ...each, scope: '' })),
    ]
    const names = new Map(swept.map(({ name, request }) => [request.scope, name]))
    const seconds = (performance.now() - startedAt) / 1000
    const missed = runs.filter((each) => each.at(-1)?.struck !== true).map((each) => each[0]?.name)
    console.log(
      `${JSON.stringify(sending)}: ${boundaries.length} boundaries, ${cases.length} cases in ${swept.length} runs, ${broken.length} findings, in ${seconds.toFixed(1)} s`,
    )
    expect(broken.map(({ scope, rule, detail }) => `${names.get(scope)}: ${rule} ${detail}`)).toEqual([])
    expect(missed).toEqual([])
    await trial.clear()
  },
  TIMEOUT_MS,
)
