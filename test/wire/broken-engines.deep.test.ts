import { afterAll, expect, onTestFinished, test } from 'vitest'
import { loadVariant } from '../broken-engines/load-variant.js'
import { createRideTables, type RideDatabase } from '../broken-engines/ride-of.js'
import { RIDES } from '../broken-engines/rides.js'
import type { VariantName } from '../broken-engines/variants.js'
import { IS_DEEP } from '../support/amounts.js'
import type { RideInput } from '../support/rides.js'
import { conclude } from './conclude.js'
import { judgeRequests } from './judge-requests.js'
import type { Fault } from './strike.js'
import { boundariesOf, casesOf, runCase, several, type SweepOptions } from './sweep.js'
import { oneWholeRide, RIDE_SHAPE, WireRides } from './wire-ride.js'
import { SETTINGS, WireTrial } from './wire-trial.js'

/** Engines without one of their mechanisms, each of which some fault at some message reveals. */
const BROKEN: readonly { readonly name: VariantName; readonly faults: readonly Fault[] }[] = [
  { name: 'no-fence-in-the-update', faults: ['held'] },
  { name: 'commit-beside-a-failed-advance', faults: ['held'] },
  { name: 'unknown-commit-as-success', faults: ['cut_before'] },
  { name: 'unknown-commit-as-failure', faults: ['answer_lost'] },
  { name: 'broken-client-kept', faults: ['cut_before'] },
]

/** Cases that run together, and are judged together. */
const AT_ONCE = 16

/** Many times what it takes on an idle machine. */
const TIMEOUT_MS = 240_000

const found: string[] = []
afterAll(() => console.log(found.join('\n')))

// The crash kit finds the others in test/broken-engines. Here they show that the proxy's faults would find them too.
test.each(BROKEN.filter(({ name }) => IS_DEEP || name === 'unknown-commit-as-failure'))(
  'faults at messages reveal an engine with $name',
  async ({ name, faults }) => {
    const { core } = await loadVariant(name)
    const trial = await WireTrial.open(
      ({ pool, schema, pawlSchema }) => createRideTables(pool, schema, pawlSchema),
      core,
    )
    onTestFinished(() => trial.close())
    const { pipeline, inputOf } = new WireRides<RideDatabase>(trial.provider, (charge) =>
      // The provider of this ride deduplicates, and is never asked.
      RIDES.keyed(
        core,
        ({ amount }, how) => charge(amount, how),
        () => Promise.resolve(null),
      ),
    )
    const options: SweepOptions<RideDatabase, RideInput> = { trial, pipeline, inputOf, defaults: SETTINGS }
    const cases = casesOf(await boundariesOf(options), faults)
    const rules = new Set<string>()
    let ran = 0
    while (rules.size === 0 && ran < cases.length) {
      const mark = await trial.database.mark()
      const swept = await several(cases.slice(ran, ran + AT_ONCE), AT_ONCE, (each) => runCase(options, each))
      ran += swept.length
      const requests = swept.map(({ request }) => request)
      const rounds = await conclude(trial, requests, [pipeline])
      const judged = requests.map((request) => ({ request, shape: RIDE_SHAPE, more: oneWholeRide }))
      for (const { rule } of swept.flatMap(({ violations }) => violations)) rules.add(rule)
      for (const { rule } of await judgeRequests(trial, mark, judged, rounds)) rules.add(rule)
    }
    found.push(`${name}: ${[...rules].join(', ')} within ${ran} of ${cases.length} cases`)
    expect(rules.size).toBeGreaterThan(0)
  },
  TIMEOUT_MS,
)
