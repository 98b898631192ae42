import { afterAll, expect, test } from 'vitest'
import { amountOf } from '../support/amounts.js'
import { conclude } from './conclude.js'
import { type Broken, judgeRequests } from './judge-requests.js'
import { unrecordedRows } from './unrecorded-rows.js'
import { boundariesOf, casesOf, runUntilStruck, several, type SweepCase, type SweepOptions } from './sweep.js'
import { type Boundary, type Fault, FAULTS } from './strike.js'
import { oneWholeRide, prepareRides, RIDE_SHAPE, RIDE_TABLES, WireRides } from './wire-ride.js'
import { SETTINGS, WireTrial } from './wire-trial.js'
import type { Database, RideInput } from '../support/rides.js'

/** Cases at a time: most of them wait for a lease, or for the server to end a transaction. */
const AT_ONCE = 16

const trial = await WireTrial.open(prepareRides)
afterAll(() => trial.close())

const ARE_ALL_ASKED_FOR = amountOf('wireAll') === 1

/** Many times what it takes on a machine with nothing else to do. */
const TIMEOUT_MS = ARE_ALL_ASKED_FOR ? 900_000 : 300_000

/** As it ships, with all faults; the other ways to send with those that are quick, unless all are asked for. */
const QUICK: readonly Fault[] = ARE_ALL_ASKED_FOR ? FAULTS : ['cut_before', 'answer_lost']
const SENDING = [
  { sending: {}, faults: FAULTS },
  { sending: { pipelining: false }, faults: QUICK },
  { sending: { preparedStatements: true }, faults: QUICK },
]

/** Each fault at each message, or at each message the one whose turn it is. */
function casesAt(boundaries: readonly Boundary[], faults: readonly Fault[]): SweepCase[] {
  if (ARE_ALL_ASKED_FOR) return casesOf(boundaries, faults)
  return boundaries.flatMap((boundary, at) => {
    const possible = casesOf([boundary], faults)
    return possible.slice(at % possible.length).slice(0, 1)
  })
}

test.each(SENDING)(
  'a ride survives faults at every message, sent with $sending',
  async ({ sending, faults }) => {
    const startedAt = performance.now()
    const { pipeline, inputOf } = WireRides.shipped(trial.provider)
    const options: SweepOptions<Database, RideInput> = {
      trial,
      pipeline,
      inputOf,
      defaults: SETTINGS,
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
