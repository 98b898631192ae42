import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { afterAll, expect, test, vi } from 'vitest'
import { amountOf } from '../support/amounts.js'
import { assertProperty } from './support/assert-property.js'
import { type SurvivalCase, survivalCase } from './survival/survival-case.js'
import { type Survival, SurvivalTrial } from './survival/survival-trial.js'

const RUNS = amountOf('pipelineRuns')

/** A case is several requests, crashes and recoveries. One that fails is run hundreds of times while it is made smaller. */
const TIMEOUT_PER_RUN_MS = 3_000
vi.setConfig({ testTimeout: 600_000 + RUNS * TIMEOUT_PER_RUN_MS })

const trial = await SurvivalTrial.open()
afterAll(async () => {
  console.log(`${trial.cases} random pipelines, ${trial.fired} faults struck`)
  await trial.close()
})

/** All properties get the same cases from the same seed: each case is run once, and all of them look at it. */
const survived: { readonly each: SurvivalCase; readonly survival: Promise<Survival> }[] = []

function survivalOf(each: SurvivalCase, at: number): Promise<Survival> {
  const known = survived[at]
  if (known !== undefined && isDeepStrictEqual(known.each, each)) return known.survival
  const survival = trial.run(each)
  // Other cases come once one has failed and is made smaller.
  if (at === survived.length && at < RUNS) survived.push({ each, survival })
  return survival
}

const RULES = [
  ['I1', 'each key has one row and one holder'],
  ['I2', 'each phase has one effect, and one attempt if its call must not be repeated'],
  ['I3', 'every final response is the same bytes'],
  ['I4', "a phase's rows exist exactly when its recovery point does"],
  ['I5', 'fences grow, and nobody writes under an older one'],
  ['I6', 'recovery points move forward'],
  ['I7', 'an ambiguous or temporary result never becomes final'],
  ['I8', 'provider keys are stable, and distinct per effect'],
  ['I9', 'the reaper removes no unfinished key'],
  ['I10', 'a key goes on under its own version, or is refused'],
  ['I12', 'another request under the same key is a mismatch, and has no effect'],
  ['I13', 'jobs exist exactly when their phase committed, and are delivered'],
  ['I14', 'no connection, transaction or promise is left behind'],
  ['I15', 'each statement is executed in the transaction of its phase'],
  ['L1', 'every key ends'],
  ['oracle', 'the final state is that of the reference model'],
  ['outcome', 'callers get true outcomes'],
] as const

test.each(RULES)('%s: %s', async (rule) => {
  let at = 0
  await assertProperty(
    fc.asyncProperty(survivalCase, async (each) => {
      const { violations, timeline } = await survivalOf(each, at++)
      const broken = violations.filter((violation) => violation.rule === rule)
      expect(broken.map(({ detail }) => detail).join('\n') + (broken.length > 0 ? `\n${timeline}` : '')).toBe(
        '',
      )
    }),
    RUNS,
    'pipelineRuns',
  )
})

test('every rule that is broken has a property here', async () => {
  const rules = new Set<string>(RULES.map(([rule]) => rule))
  for (const { survival } of survived) {
    expect((await survival).violations.filter(({ rule }) => !rules.has(rule))).toEqual([])
  }
})
