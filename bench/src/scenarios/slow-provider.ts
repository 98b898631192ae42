import { CREATED } from '../business.js'
import type { ContenderName } from '../contenders/registry.js'
import { alternate } from '../measure/rounds.js'
import { takeSample } from '../measure/sample.js'
import { warmUp } from '../measure/warm-up.js'
import { linesOf } from '../report/section.js'
import { freshLoad } from './keyed-load.js'
import type { Mode, Scenario } from './scenario.js'

const CONTENDERS: Readonly<Record<Mode, readonly ContenderName[]>> = {
  quick: ['pawl-fewest', 'original'],
  full: [
    'pawl',
    'pawl-fewest',
    'hand-written',
    'original',
    'no-idempotency',
    'dbos',
    'openworkflow',
    'restate',
    'absurd',
  ],
}

const BASELINE = 'original'
const CLIENTS = 500
const POOL_SIZE = 10
const PROVIDER_DELAY_MS = 200

/** The original needs more than ten seconds for its first 500, whatever the window. */
const PLANS: Readonly<Record<Mode, { rounds: number; windowMs: number }>> = {
  quick: { rounds: 1, windowMs: 1_500 },
  full: { rounds: 3, windowMs: 4_000 },
}

/** With fewer, contenders that keep no connection would take long to warm up: each request takes its 200 ms. */
const WARM_UP_CLIENTS = 200

/** A provider that takes its time, and many more requests than connections: who keeps a connection while it waits? */
export const slowProvider: Scenario = {
  title: 'slow provider',
  async run(stage) {
    const { arena, mode, among, say } = stage
    say('slow provider')
    const { rounds, windowMs } = PLANS[mode]
    const options = { poolSize: POOL_SIZE, providerDelayMs: PROVIDER_DELAY_MS }
    const entrants = await Promise.all(among(CONTENDERS[mode]).map((name) => arena.enter(name, options)))
    await warmUp(stage, entrants, freshLoad(WARM_UP_CLIENTS, 0, 0))
    const samples = await alternate(entrants, rounds, (entrant) =>
      takeSample(arena, entrant, {
        clients: CLIENTS,
        leadInMs: 0,
        windowMs,
        measure: 'all',
        keys: null,
        expectedStatus: CREATED,
      }),
    )
    await Promise.all(entrants.map((entrant) => entrant.close()))
    return [
      {
        name: 'slow provider',
        title: `Slow provider: ${PROVIDER_DELAY_MS} ms, pool of ${POOL_SIZE}, ${CLIENTS} clients at once`,
        unit: 'requests/s',
        compared: 'requestsPerSecond',
        baseline: BASELINE,
        lines: linesOf(samples, 'requestsPerSecond', BASELINE),
        notes: [
          `Clients send for ${windowMs / 1_000} s, each at least once; measured from the first request to the last answer.`,
        ],
      },
    ]
  },
}
