import type { InstrumentedVariant } from '../contenders/instrumented.js'
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
  quick: { rounds: 5, leadInMs: 150, windowMs: 600 },
  full: { rounds: 15, leadInMs: 400, windowMs: 1_600 },
}

const BASE = 'not instrumented'

/** The base is there twice: by as much as these differ, nothing can be told. */
const PARTICIPANTS: readonly { readonly label: string; readonly variant: InstrumentedVariant }[] = [
  { label: BASE, variant: 'pawl-instrumented@off' },
  { label: 'not instrumented, again', variant: 'pawl-instrumented@again' },
  { label: 'without an SDK', variant: 'pawl-instrumented@without-sdk' },
  { label: 'metrics', variant: 'pawl-instrumented@metrics' },
  { label: 'traces and metrics', variant: 'pawl-instrumented@all' },
]

interface Participant {
  readonly label: string
  readonly entrant: Entrant
}

/** What traces and metrics cost a new request, with a real OpenTelemetry SDK that exports to nowhere. */
export const instrumented: Scenario = {
  title: 'instrumented',
  async run(stage) {
    const { arena, mode, among, say } = stage
    if (among(['pawl']).length === 0) return []
    say('instrumented')
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
        name: 'instrumented',
        title: `Pawl with OpenTelemetry, fresh requests, ${CLIENTS} clients`,
        unit: 'requests/s',
        compared: 'requestsPerSecond',
        baseline: BASE,
        lines: linesOf(samples, 'requestsPerSecond', BASE),
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
  const base = of(BASE)
  return PARTICIPANTS.slice(1).map(({ label }) => {
    const own = of(label)
    const byRate = ratiosOf(own.map(rate), base.map(rate))
    const byCpu = ratiosOf(base.map(cpu), own.map(cpu))
    return `${label} against ${BASE}: ${withSpread(byRate)}; by CPU: ${withSpread(byCpu)}`
  })
}
