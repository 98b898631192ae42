import type { ContenderName } from '../contenders/registry.js'
import { alternate } from '../measure/rounds.js'
import { takeSample } from '../measure/sample.js'
import { linesOf } from '../report/section.js'
import { freshLoad } from './keyed-load.js'
import type { Mode, Scenario } from './scenario.js'

const CONTENDERS: readonly ContenderName[] = ['pawl-fewest', 'hand-written']

const BASELINE = 'hand-written'
const CLIENTS = 32

const PLANS: Readonly<Record<Mode, { rounds: number; windowMs: number }>> = {
  quick: { rounds: 1, windowMs: 2_000 },
  full: { rounds: 5, windowMs: 5_000 },
}

/** A process that has just started: nothing is compiled, and no connection is open. Each round has a new one. */
export const start: Scenario = {
  title: 'the first seconds of a process',
  async run({ arena, mode, among, say }) {
    say('the first seconds of a process')
    const { rounds, windowMs } = PLANS[mode]
    const participants = among(CONTENDERS).map((label) => ({ label }))
    const plan = freshLoad(CLIENTS, 0, windowMs)
    const samples = await alternate(participants, rounds, async ({ label }) => {
      const { entrant, stop } = await arena.enterNew(label)
      const sample = await takeSample(arena, entrant, plan)
      await stop()
      return sample
    })
    return [
      {
        name: 'start',
        title: `The first ${windowMs / 1_000} seconds of a process, fresh requests, ${CLIENTS} clients`,
        unit: 'requests/s',
        compared: 'requestsPerSecond',
        baseline: BASELINE,
        lines: linesOf(samples, 'requestsPerSecond', BASELINE),
        notes: [],
      },
    ]
  },
}
