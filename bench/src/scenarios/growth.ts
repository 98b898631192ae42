import { CREATED } from '../business.js'
import { alternate, type Rounds } from '../measure/rounds.js'
import { type Sample, takeSample } from '../measure/sample.js'
import { ratiosOf } from '../measure/statistics.js'
import { withSpread } from '../report/numbers.js'
import { linesOf, type Section } from '../report/section.js'
import type { LoadPlan } from '../run/load.js'
import { bytesSection, measureBytes } from './growth-bytes.js'
import { type Filled, fillSizes, LAYOUTS, SIZES, type Size } from './growth-sizes.js'
import { upkeepSections } from './growth-upkeep.js'
import { freshLoad } from './keyed-load.js'
import type { Mode, Scenario, Stage } from './scenario.js'
import { writeOut } from './write-out.js'

const CLIENTS = 32

interface Plan {
  readonly rounds: number
  readonly leadInMs: number
  readonly windowMs: number
  readonly replayWindowMs: number
  readonly warmUpMs: number
}

const PLANS: Readonly<Record<Mode, Plan>> = {
  quick: { rounds: 3, leadInMs: 150, windowMs: 500, replayWindowMs: 300, warmUpMs: 800 },
  full: { rounds: 11, leadInMs: 400, windowMs: 1_600, replayWindowMs: 1_000, warmUpMs: 10_000 },
}

/** Does Pawl get slower as the table fills up? Tables of all sizes and both layouts exist side by side and take turns. */
export const growth: Scenario = {
  title: 'growth of the table',
  async run(stage) {
    const { arena, mode, among, say } = stage
    if (among(['pawl']).length === 0) return []
    const filled = await fillSizes(stage)
    const ofFilled = await measureBytes(
      stage,
      filled.filter(({ size }) => size.keys > 0),
    )
    const { rounds, leadInMs, windowMs, replayWindowMs, warmUpMs } = PLANS[mode]
    const fresh = freshLoad(CLIENTS, leadInMs, windowMs)
    const replay = ({ replayedKeys }: Filled): LoadPlan => ({
      ...freshLoad(CLIENTS, leadInMs, replayWindowMs),
      keys: replayedKeys,
      expectedStatus: CREATED,
    })
    say('growth: new requests')
    const ofNew = await measure(stage, filled, { rounds, warmUpMs, planOf: () => fresh })
    say('growth: replays')
    const ofReplays = await measure(stage, filled, { rounds, warmUpMs: warmUpMs / 2, planOf: replay })
    const ofWritten = await measureBytes(
      stage,
      filled.filter(({ size }) => size.keys === 0),
    )
    const upkeep = await upkeepSections(stage, filled)
    await Promise.all(filled.map(({ entrant }) => entrant.close()))
    await arena.provider.ask('forget', null)
    return [
      section(
        'growth',
        `Pawl with finished keys in its table, fresh requests, ${CLIENTS} clients`,
        ofNew,
        SIZES[mode],
      ),
      section(
        'growth replay',
        `Replays of keys from all over that table, ${CLIENTS} clients`,
        ofReplays,
        SIZES[mode],
      ),
      bytesSection([...ofWritten, ...ofFilled]),
      ...upkeep,
    ]
  },
}

interface Measuring {
  readonly rounds: number
  readonly warmUpMs: number
  readonly planOf: (filled: Filled) => LoadPlan
}

async function measure(
  { arena }: Stage,
  filled: readonly Filled[],
  { rounds, warmUpMs, planOf }: Measuring,
): Promise<Rounds<Filled, Sample>> {
  await writeOut(arena.database.observer)
  // The first write of a page after a checkpoint puts the whole page in the WAL. For small tables, that is over by now.
  for (const each of filled) {
    await arena.leaveTo(each.entrant)
    await each.entrant.load({ ...planOf(each), leadInMs: 0, windowMs: warmUpMs })
  }
  return alternate(filled, rounds, (each) => takeSample(arena, each.entrant, planOf(each)))
}

function section(
  name: string,
  title: string,
  samples: Rounds<Filled, Sample>,
  sizes: readonly Size[],
): Section {
  const baseline = sizes[0]?.label ?? null
  return {
    name,
    title,
    unit: 'requests/s',
    compared: 'requestsPerSecond',
    baseline,
    lines: linesOf(samples, 'requestsPerSecond', baseline),
    notes: comparisons(samples, sizes),
  }
}

/** What the column of ratios does not show: one layout against the other, and each against its own empty table. */
function comparisons(samples: Rounds<Filled, Sample>, sizes: readonly Size[]): string[] {
  const rates = (size: Size | undefined, layout: Filled['layout']): number[] =>
    [...samples]
      .find(([each]) => each.size === size && each.layout === layout)?.[1]
      .map(({ requestsPerSecond }) => requestsPerSecond) ?? []
  const [empty] = sizes
  const last = sizes.at(-1)
  return [
    ...sizes.map((size) => {
      const ratio = ratiosOf(rates(size, 'partitioned'), rates(size, 'plain'))
      return `Partitioned against plain, ${size.label}: ${withSpread(ratio)}`
    }),
    ...LAYOUTS.map((layout) => {
      const ratio = ratiosOf(rates(last, layout), rates(empty, layout))
      return `${last?.label} against an empty table, ${layout}: ${withSpread(ratio)}`
    }),
  ]
}
