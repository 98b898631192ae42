import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { createFactTables } from './pipelines/fact-tables.js'
import { observeTrial } from './pipelines/observe-trial.js'
import { pipelinePlan } from './pipelines/pipeline-plan.js'
import { PlanTrial } from './pipelines/plan-trial.js'
import { asSeen, referenceModel } from './pipelines/reference-model.js'
import { amountOf } from '../support/amounts.js'
import { assertProperty } from './support/assert-property.js'
import { jsonValue } from './support/json.js'

const RUNS = amountOf('runs')

/** Each case is three whole requests of up to eight phases. */
const TENANT_RUNS = Math.ceil(RUNS / 8)

const database = await TestDatabase.create()
await createFactTables(database.admin, database.businessSchema)
afterAll(() => database.drop())
const pool = database.pool({ max: 4 })

/** Expects that the request ended as its own input demands, with nothing of anybody else's. */
async function expectOwn(trial: PlanTrial, input: Parameters<typeof referenceModel>[1]): Promise<void> {
  const { end, snapshots } = referenceModel(trial.plan, input)
  const { outcome } = await trial.run(pool)
  expect(outcome.type).toBe(end.status === 'finished' ? 'replayed' : 'stuck')
  if (end.status === 'finished' && outcome.type === 'replayed') {
    const { status, headers, body } = outcome.response
    expect({ status, headers, body: body.toString() }).toEqual(end.response)
  }
  const { snapshot } = await observeTrial(trial)
  expect(snapshot).toEqual(asSeen(snapshots.at(-1), snapshot))
}

// Shows I11.
test('I11: scopes that use the same key at once see nothing of each other', () =>
  assertProperty(
    fc.asyncProperty(pipelinePlan, jsonValue, jsonValue, async (plan, input, otherInput) => {
      // Every trial has its own scope, and all of them send the same key.
      const one = new PlanTrial(database, plan, input)
      const other = new PlanTrial(database, plan, otherInput)
      await Promise.all([one.run(pool), other.run(pool)])
      await expectOwn(one, input)
      await expectOwn(other, otherInput)
    }),
    TENANT_RUNS,
  ))
