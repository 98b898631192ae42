import type { GuardedVariant } from '../contenders/guarded.js'
import { alternate, type Rounds } from '../measure/rounds.js'
import { type Sample, takeSample } from '../measure/sample.js'
import { ratiosOf } from '../measure/statistics.js'
import { warmUp } from '../measure/warm-up.js'
import { withSpread } from '../report/numbers.js'
import { linesOf } from '../report/section.js'
import type { Entrant } from '../run/entrant.js'
import { freshLoad } from './keyed-load.js'
import type { Mode, Scenario } from './scenario.js'
import { writeOut } from './write-out.js'

const CLIENTS = 32

const PLANS: Readonly<Record<Mode, { rounds: number; leadInMs: number; windowMs: number }>> = {
  quick: { rounds: 3, leadInMs: 150, windowMs: 500 },
  full: { rounds: 15, leadInMs: 400, windowMs: 1_600 },
}

/** The variants, and what each is compared with. */
const PARTICIPANTS: readonly {
  readonly label: string
  readonly variant: GuardedVariant
  readonly against: string | null
}[] = [
  { label: 'all off', variant: 'pawl-guarded@off', against: null },
  { label: 'all off, one scope', variant: 'pawl-guarded@off-one-scope', against: 'all off' },
  { label: 'limits', variant: 'pawl-guarded@limits', against: 'all off' },
  { label: 'limits, one scope', variant: 'pawl-guarded@limits-one-scope', against: 'all off, one scope' },
  { label: 'protect', variant: 'pawl-guarded@protect', against: 'all off' },
  { label: 'all on', variant: 'pawl-guarded@all', against: 'all off' },
]

interface Participant {
  readonly label: string
  readonly entrant: Entrant
}

/** What the guard rails cost a new request: limits of scopes, and what is stored sealed. */
export const guards: Scenario = {
  title: 'guard rails',
  async run(stage) {
    const { arena, mode, among, say } = stage
    if (among(['pawl']).length === 0) return []
    say('guards')
    const { rounds, leadInMs, windowMs } = PLANS[mode]
    const plan = freshLoad(CLIENTS, leadInMs, windowMs)
    const participants = await Promise.all(
      PARTICIPANTS.map(async ({ label, variant }) => ({ label, entrant: await arena.enter(variant) })),
    )
    const entrants = participants.map(({ entrant }) => entrant)
    await warmUp(stage, entrants, plan)
    await writeOut(arena.database.observer)
    const samples = await alternate(participants, rounds, ({ entrant }) => takeSample(arena, entrant, plan))
    await Promise.all(entrants.map((entrant) => entrant.close()))
    return [
      {
        name: 'guards',
        title: `Pawl with guard rails, fresh requests, ${CLIENTS} clients`,
        unit: 'requests/s',
        compared: 'requestsPerSecond',
        baseline: 'all off',
        lines: linesOf(samples, 'requestsPerSecond', 'all off'),
        notes: comparisons(samples),
      },
    ]
  },
}

const rate = ({ requestsPerSecond }: Sample): number => requestsPerSecond
const cpu = ({ cpuMs, serverCpuMs }: Sample): number => cpuMs + (serverCpuMs ?? Number.NaN)

/** Where the machine is shared, CPU time says more than how much was done in a second. */
function comparisons(samples: Rounds<Participant, Sample>): string[] {
  const of = (wanted: string): readonly Sample[] =>
    [...samples].find(([{ label }]) => label === wanted)?.[1] ?? []
  return PARTICIPANTS.flatMap(({ label, against }) => {
    if (against === null) return []
    const [own, base] = [of(label), of(against)]
    const byRate = ratiosOf(own.map(rate), base.map(rate))
    const byCpu = ratiosOf(base.map(cpu), own.map(cpu))
    return [`${label} against ${against}: ${withSpread(byRate)}; by CPU: ${withSpread(byCpu)}`]
  })
}
