import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { afterAll, expect, test, vi } from 'vitest'
import { amountOf } from '../support/amounts.js'
import { type ShippedCase, shippedCase } from './shipped/shipped-case.js'
import { type Shipped, ShippedTrial } from './shipped/shipped-trial.js'
import { assertProperty } from './support/assert-property.js'

/** Each case is a whole request, and then a look at what it left. */
const RUNS = amountOf('pipelineRuns')
const SHIPPED_RUNS = Math.ceil(RUNS / 2)

/** A case that fails is run hundreds of times more while it is made smaller. */
const TIMEOUT_PER_RUN_MS = 3_000
vi.setConfig({ testTimeout: 600_000 + RUNS * TIMEOUT_PER_RUN_MS })

const trial = await ShippedTrial.open()
afterAll(async () => {
  console.log(`${trial.cases} random pipelines on the engine as it ships, ${trial.kills} backends killed`)
  await trial.close()
})

/** Both properties get the same cases from the same seed: each case is run once, and both look at it. */
const runs: { readonly each: ShippedCase; readonly shipped: Promise<Shipped> }[] = []

function shippedOf(each: ShippedCase, at: number): Promise<Shipped> {
  const known = runs[at]
  if (known !== undefined && isDeepStrictEqual(known.each, each)) return known.shipped
  const shipped = trial.run(each)
  // Other cases come once one has failed and is made smaller.
  if (at === runs.length && at < SHIPPED_RUNS) runs.push({ each, shipped })
  return shipped
}

function expectNone(violations: Shipped['violations'], timeline: string): void {
  const broken = violations.map(({ rule, detail }) => `${rule}: ${detail}`)
  expect([...broken, ...(broken.length > 0 ? [timeline] : [])].join('\n')).toBe('')
}

async function checkCases(isOfThis: (rule: string) => boolean): Promise<void> {
  let at = 0
  await assertProperty(
    fc.asyncProperty(shippedCase, async (each) => {
      const { violations, timeline } = await shippedOf(each, at++)
      expectNone(
        violations.filter(({ rule }) => isOfThis(rule)),
        timeline,
      )
    }),
    SHIPPED_RUNS,
    'pipelineRuns',
  )
}

// Shows I15.
test('I15: every row of a phase carries the transaction id that its recovery point was committed with', () =>
  checkCases((rule) => rule === 'I15'))

test('all other rules hold whatever bodies, backends and the provider do, and every request ends as in the model', () =>
  checkCases((rule) => rule !== 'I15'))
