import type { ContenderName } from '../contenders/registry.js'
import { openDistantDatabase } from '../measure/distant-database.js'
import { alternate } from '../measure/rounds.js'
import { takeSample } from '../measure/sample.js'
import { warmUp } from '../measure/warm-up.js'
import { short } from '../report/numbers.js'
import { linesOf } from '../report/section.js'
import { freshLoad } from './keyed-load.js'
import type { Mode, Scenario } from './scenario.js'

const CONTENDERS: Readonly<Record<Mode, readonly ContenderName[]>> = {
  quick: ['pawl', 'pawl-fewest', 'hand-written', 'no-idempotency'],
  full: ['pawl', 'pawl-fewest', 'hand-written', 'original', 'no-idempotency', 'dbos'],
}

const BASELINE = 'hand-written'

/** Another availability zone of the same region. */
const ROUND_TRIP_MS = 1

const PLANS: Readonly<Record<Mode, { rounds: number; leadInMs: number; windowMs: number }>> = {
  quick: { rounds: 3, leadInMs: 100, windowMs: 500 },
  full: { rounds: 5, leadInMs: 200, windowMs: 1_500 },
}

/** A database that is not on the same machine: every round trip takes a millisecond longer. */
export const away: Scenario = {
  title: 'a database 1 ms away',
  async run(stage) {
    const { arena, mode, among, say } = stage
    say('1 ms away')
    const { rounds, leadInMs, windowMs } = PLANS[mode]
    const distant = await openDistantDatabase(arena.database.url, ROUND_TRIP_MS)
    const entrants = await Promise.all(
      among(CONTENDERS[mode]).map((name) => arena.enter(name, { databaseUrl: distant.url })),
    )
    const plan = freshLoad(1, leadInMs, windowMs)
    await warmUp(stage, entrants, plan)
    const samples = await alternate(entrants, rounds, (entrant) => takeSample(arena, entrant, plan))
    await Promise.all(entrants.map((entrant) => entrant.close()))
    await distant.close()
    return [
      {
        name: '1 ms away',
        title: 'A database 1 ms away, fresh requests, one client',
        unit: 'requests/s',
        compared: 'p50Ms',
        baseline: BASELINE,
        lines: linesOf(samples, 'p50Ms', BASELINE),
        notes: [`The proxy really added ${short(distant.addedMs)} ms to a round trip (median of SELECT 1).`],
      },
    ]
  },
}
