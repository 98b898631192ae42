import {
  type BackgroundOptions,
  createBackground,
  deliverEach,
  type PhaseSettings,
  type Pipeline,
} from '@pawl/core'
import { afterEach, beforeEach, expect, inject, test, vi } from 'vitest'
import { Provider } from '../support/provider.js'
import {
  type Database,
  createEngine,
  createRideOf,
  createRideTables,
  type RideInput,
} from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

/** Longer than any timer of Node can wait. */
const BEYOND_MS = 2 ** 31

let database: TestDatabase
let ride: Pipeline<Database, RideInput>

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  ride = createRideOf(new Provider(inject('providerUrl')))
})
afterEach(() => database.drop())

/** The largest value that an option takes, found by trying, so that it does not have to be repeated here. */
function longest(accepts: (ms: number) => unknown): number {
  let [taken, refused] = [0, BEYOND_MS]
  while (refused - taken > 1) {
    const ms = Math.floor((taken + refused) / 2)
    try {
      accepts(ms)
      taken = ms
    } catch {
      refused = ms
    }
  }
  return taken
}

const engineWith = (defaults: PhaseSettings, acquireTimeoutMs?: number) =>
  createEngine({
    pool: database.pool(),
    schema: database.schema,
    pipelines: [ride],
    defaults,
    ...(acquireTimeoutMs !== undefined && { acquireTimeoutMs }),
  })

test('the longest durations that are accepted overflow neither a timer nor a setting of PostgreSQL', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const leaseMs = longest((ms) => engineWith({ leaseMs: ms }))
  const setting = (name: keyof PhaseSettings) => longest((ms) => engineWith({ leaseMs, [name]: ms }))
  const engine = engineWith(
    {
      leaseMs,
      statementTimeoutMs: setting('statementTimeoutMs'),
      lockTimeoutMs: setting('lockTimeoutMs'),
      idleTimeoutMs: setting('idleTimeoutMs'),
      callTimeoutMs: setting('callTimeoutMs'),
    },
    longest((ms) => engineWith({}, ms)),
  )
  const sink = deliverEach(async () => {})
  const accepts = (options: Omit<BackgroundOptions<Database>, 'engine'>) =>
    createBackground({ engine, ...options })
  const services = createBackground({
    engine,
    completer: { pollMs: longest((pollMs) => accepts({ completer: { pollMs } })) },
    relay: {
      sink,
      pollMs: longest((pollMs) => accepts({ relay: { sink, pollMs } })),
      deliverTimeoutMs: longest((deliverTimeoutMs) => accepts({ relay: { sink, deliverTimeoutMs } })),
    },
    reaper: {
      pollMs: longest((pollMs) => accepts({ reaper: { pollMs } })),
      pauseMs: longest((pauseMs) => accepts({ reaper: { pauseMs } })),
    },
  })
  services.start()
  const outcome = await engine.execute(ride, { scope: 's', key: 'k', input: { amount: 1 } })
  await services.runOnce()
  await services.stop()
  await engine.close()
  expect(outcome).toMatchObject({ type: 'completed' })
  expect(warned.mock.calls).toEqual([])
})
