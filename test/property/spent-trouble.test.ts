import { afterAll, expect, test } from 'vitest'
import type { ForeignPlan, TransactionPlan } from './pipelines/phase-plan.js'
import { EMPTY_PLAN, type PipelinePlan } from './pipelines/pipeline-plan.js'
import { PLAIN_STYLE } from './pipelines/random-style.js'
import { SurvivalTrial } from './survival/survival-trial.js'

/** More positions than a request of this pipeline passes at which a backend can be terminated. */
const MAX_POSITIONS = 40

const trial = await SurvivalTrial.open()
afterAll(() => trial.close())

const NOTHING = { work: { facts: [], totals: [], jobs: [] }, style: PLAIN_STYLE, trouble: null }
const ANSWERS = {
  kind: 'respond',
  response: { status: 200, body: { kind: 'none' }, headers: {} },
} as const satisfies TransactionPlan['ending']

/** Its call is refused. `onError` writes a fact, and then throws the first time. */
const REFUSED: ForeignPlan = {
  kind: 'foreign',
  name: 'p1',
  isolation: null,
  when: null,
  guarantee: 'at_most_once',
  refusal: {
    kind: 'declined',
    onError: {
      ...NOTHING,
      style: { ...PLAIN_STYLE, detours: ['savepoint_released'] },
      trouble: { mishap: { kind: 'throws' }, at: 'first', times: 1 },
      ending: ANSWERS,
    },
  },
  settle: { ...NOTHING, ending: ANSWERS },
}
const PLAN: PipelinePlan = { ...EMPTY_PLAN, phases: [REFUSED] }

test.each([true, false])(
  'where a lost connection repeats onError, the request may end as if it had not thrown (pipelining: %s)',
  async (pipelining) => {
    const sending = { pipelining, preparedStatements: false, preparedQueries: false }
    const ends = new Set<string>()
    for (let after = 0; after < MAX_POSITIONS; after++) {
      const disturbance = { by: 'faults' as const, strikes: [{ fault: 'connectionKilled', after }] }
      const { violations, timeline, fired, status } = await trial.run({
        plan: PLAN,
        input: null,
        sending,
        disturbance,
      })
      expect(violations.map(({ rule, detail }) => `${rule}: ${detail}`).join('\n') + timeline).toBe('')
      ends.add(status)
      if (fired === 0) break
    }
    expect([...ends].toSorted()).toEqual(['finished', 'stuck'])
  },
)
