import { afterAll, expect, test } from 'vitest'
import type { Style } from './pipelines/body-style.js'
import type { Trouble, Work } from './pipelines/phase-plan.js'
import { EMPTY_PLAN, type PipelinePlan } from './pipelines/pipeline-plan.js'
import { PLAIN_STYLE } from './pipelines/random-style.js'
import type { Write } from './pipelines/unsent-writes.js'
import { SurvivalTrial } from './survival/survival-trial.js'
import { onlyDeep } from '../support/amounts.js'

/** More positions than one request of these pipelines passes at which an exception can strike. */
const MAX_POSITIONS = 40

const trial = await SurvivalTrial.open()
afterAll(() => trial.close())

/** A pipeline whose only phase writes two facts and a total. */
function writingPlan(awaits: Style['awaits'], trouble: Trouble | null): PipelinePlan {
  const run = { work: WORK, style: { ...PLAIN_STYLE, awaits }, trouble, ending: ADVANCE }
  const phase = { kind: 'local' as const, name: 'p1', isolation: null, when: null, run }
  return { ...EMPTY_PLAN, phases: [phase] }
}

const WORK: Work = {
  facts: [1, 2].map((value) => ({ from: 'plan', value })),
  totals: [{ name: 'x', amount: 3 }],
  jobs: [],
}
const ADVANCE = { kind: 'advance', patch: null } as const

const raising = (afterwards: 'queries_on' | 'queries_on_swallowed'): Trouble => ({
  mishap: { kind: 'sql_error', error: 'unique_violation', afterwards },
  at: 'last',
  times: 1,
})

/** Runs the plan once per position, with an exception there. Returns all that bodies swallowed and committed without. */
async function swallowedAnywhere(plan: PipelinePlan, pipelining: boolean): Promise<Write[]> {
  const sending = { pipelining, preparedStatements: false, preparedQueries: false }
  const swallowed: Write[] = []
  for (let after = 0; after < MAX_POSITIONS; after++) {
    const disturbance = { by: 'faults' as const, strikes: [{ fault: 'throw', after }] }
    const { violations, timeline, fired, unsent } = await trial.run({
      plan,
      input: null,
      sending,
      disturbance,
    })
    expect(violations.map(({ rule, detail }) => `${rule}: ${detail}`).join('\n') + timeline).toBe('')
    swallowed.push(...unsent)
    if (fired === 0) return swallowed.toSorted()
  }
  throw new Error(`an exception still struck at position ${MAX_POSITIONS}`)
}

test.each([
  // The first statement goes out together with BEGIN. Without that message there is no transaction that could commit.
  { pipelining: true, missing: ['fact 1', 'total 0'] },
  { pipelining: false, missing: ['fact 0', 'fact 1', 'total 0'] },
])(
  'a body that swallows an exception before a statement commits all but that (pipelining: $pipelining)',
  async ({ pipelining, missing }) => {
    expect(await swallowedAnywhere(writingPlan('all_settled', null), pipelining)).toEqual(missing)
  },
)

onlyDeep(() => {
  test.each(['in_turn', 'all'] as const)(
    'a body that does not swallow it commits everything on its next run (awaits: %s)',
    async (awaits) => {
      expect(await swallowedAnywhere(writingPlan(awaits, null), true)).toEqual([])
    },
  )
})

onlyDeep(() => {
  test.each([
    { afterwards: 'queries_on', missing: ['error'] },
    { afterwards: 'queries_on_swallowed', missing: ['error'] },
  ] as const)(
    'a body whose failing statement is not sent commits what it writes after it ($afterwards)',
    async ({ afterwards, missing }) => {
      expect(await swallowedAnywhere(writingPlan('in_turn', raising(afterwards)), true)).toEqual(missing)
    },
  )
})
