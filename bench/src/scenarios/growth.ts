import type { PawlVariant } from '../contenders/registry.js'
import { alternate } from '../measure/rounds.js'
import { takeSample } from '../measure/sample.js'
import { linesOf } from '../report/section.js'
import { fillFinishedKeys } from './finished-keys.js'
import { freshLoad } from './keyed-load.js'
import type { Mode, Scenario } from './scenario.js'
import { writeOut } from './write-out.js'

const CLIENTS = 32
const EMPTY = 'empty table'

interface Size {
  readonly label: string
  readonly variant: PawlVariant
  readonly keys: number
}

const empty: Size = { label: EMPTY, variant: 'pawl@growth_0', keys: 0 }
const large: Size = { label: '100 thousand keys', variant: 'pawl@growth_100k', keys: 100_000 }
const huge: Size = { label: '2 million keys', variant: 'pawl@growth_2m', keys: 2_000_000 }

const PLANS: Readonly<
  Record<
    Mode,
    { sizes: readonly Size[]; rounds: number; leadInMs: number; windowMs: number; warmUpMs: number }
  >
> = {
  quick: { sizes: [empty, large], rounds: 3, leadInMs: 200, windowMs: 600, warmUpMs: 1_000 },
  full: { sizes: [empty, large, huge], rounds: 7, leadInMs: 400, windowMs: 1_600, warmUpMs: 8_000 },
}

/** Does Pawl get slower as the table fills up? Tables of all sizes exist side by side and take turns. */
export const growth: Scenario = {
  title: 'growth of the table',
  async run({ arena, mode, among, say }) {
    if (among(['pawl']).length === 0) return []
    const { sizes, rounds, leadInMs, windowMs, warmUpMs } = PLANS[mode]
    const { observer, url: databaseUrl } = arena.database
    const participants = []
    for (const { label, variant, keys } of sizes) {
      say(`growth: ${label}`)
      const entrant = await arena.enter(variant)
      await fillFinishedKeys(entrant, { databaseUrl, variant, count: keys, expiresIn: 'a day' })
      participants.push({ label, entrant })
    }
    await writeOut(observer)
    // The first write of a page after a checkpoint puts the whole page in the WAL. Most of that is over by now.
    for (const { entrant } of participants) {
      await arena.leaveTo(entrant)
      await entrant.load(freshLoad(CLIENTS, 0, warmUpMs))
    }
    say('growth: rounds')
    const plan = freshLoad(CLIENTS, leadInMs, windowMs)
    const samples = await alternate(participants, rounds, ({ entrant }) => takeSample(arena, entrant, plan))
    await Promise.all(participants.map(({ entrant }) => entrant.close()))
    return [
      {
        name: 'growth',
        title: `Pawl with finished keys in its table, fresh requests, ${CLIENTS} clients`,
        unit: 'requests/s',
        compared: 'requestsPerSecond',
        baseline: EMPTY,
        lines: linesOf(samples, 'requestsPerSecond', EMPTY),
        notes: [],
      },
    ]
  },
}
