import { afterAll, expect, test } from 'vitest'
import { type Broken, judgeRequests } from './judge-requests.js'
import { unrecordedRows } from './unrecorded-rows.js'
import { boundariesOf, casesOf, runCase, several, type SweepOptions } from './sweep.js'
import { oneWholeRide, prepareRides, RIDE_SHAPE, RIDE_TABLES, WireRides } from './wire-ride.js'
import { SETTINGS, WireTrial } from './wire-trial.js'
import type { Database, RideInput } from '../support/rides.js'

/** Cases at a time: most of them wait for a lease, or for the server to end a transaction. */
const AT_ONCE = 40

const trial = await WireTrial.open(prepareRides)
afterAll(() => trial.close())

const SENDING = [
  { pipelining: true, preparedStatements: false },
  { pipelining: false, preparedStatements: false },
  { pipelining: true, preparedStatements: true },
]

test.each(SENDING)(
  'a ride survives every fault at every message, sent with %o',
  async (sending) => {
    const startedAt = performance.now()
    const { pipeline, inputOf } = new WireRides(trial.provider)
    const options: SweepOptions<Database, RideInput> = {
      trial,
      pipeline,
      inputOf,
      defaults: SETTINGS,
      ...sending,
    }
    const boundaries = await boundariesOf(options)
    const mark = await trial.database.mark()
    const swept = await several(casesOf(boundaries), AT_ONCE, (each) => runCase(options, each))
    const rounds = await trial.complete({ pipelines: [pipeline] })
    await trial.relay()
    const broken: Broken[] = [
      ...(await judgeRequests(
        trial,
        mark,
        swept.map(({ request }) => ({ request, shape: RIDE_SHAPE, more: oneWholeRide })),
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
    const missed = swept.filter(({ struck }) => !struck)
    console.log(
      `${JSON.stringify(sending)}: ${boundaries.length} boundaries, ${swept.length} cases in ${seconds.toFixed(1)} s`,
    )
    expect(broken.map(({ scope, rule, detail }) => `${names.get(scope)}: ${rule} ${detail}`)).toEqual([])
    expect(missed.map(({ name }) => name)).toEqual([])
    await trial.clear()
  },
  180_000,
)
