import type { Outcome } from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { atMostOnceRideOf, queryableRideOf } from '../support/guarded-rides.js'
import { expectConsistent, expectRecovered, tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const pool = database.pool()
const queryable = await new RideTrial(database, queryableRideOf).positions()
const queryableOracle = await tracesWithoutCrash(new RideTrial(database, queryableRideOf), pool)
const atMostOnce = await new RideTrial(database, atMostOnceRideOf).positions()
const atMostOnceOracle = await tracesWithoutCrash(new RideTrial(database, atMostOnceRideOf), pool)

/** From when the call is declared until its result has committed, its outcome is unknown to whoever comes next. */
const DECLARED = 'charge_created/declare_call#1:after'
const SETTLED = 'charge_created/commit#1:after'
const isUnknown = (positions: readonly string[], at: string) =>
  positions.indexOf(at) >= positions.indexOf(DECLARED) && positions.indexOf(at) < positions.indexOf(SETTLED)

/** Moves the declared deadline so far back that the provider's quiet time is over, too. */
async function passDeadline(trial: RideTrial): Promise<void> {
  await database.rows(
    `UPDATE pawl.idempotency_keys SET intent = jsonb_set(intent::jsonb, '{deadlineMs}',
            to_jsonb((intent->>'deadlineMs')::bigint - 3600000))
      WHERE scope = $1 AND intent->>'kind' = 'calling'`,
    [trial.scope],
  )
}

async function executeOnce(trial: RideTrial): Promise<Outcome> {
  const engine = createEngine(trial.options(pool))
  const outcome = await trial.execute(engine)
  await engine.close()
  return outcome
}

describe('queryable: a declared call is asked about, and made again only once its absence counts', () => {
  test.each(queryable)('%s', async (at) => {
    const trial = new RideTrial(database, queryableRideOf)
    expect(await trial.dieAt(at)).toBe('died')
    await expectConsistent(trial)
    const sent = (await trial.provider.requests()).length
    if (isUnknown(queryable, at) && sent === 0) {
      await database.expireLeases()
      const early = await executeOnce(trial)
      expect(early).toMatchObject({ type: 'retry_later', reason: 'outcome_pending' })
      expect(await trial.provider.requests()).toHaveLength(0)
      await passDeadline(trial)
    }
    await expectRecovered(trial, pool, queryableOracle)
    expect(await trial.provider.requests()).toHaveLength(1)
  })

  const duringCall = ['charge_created/call#1:before', 'charge_created/call#1:after']
  const duringRecovery = [
    'charge_created/reconcile#1:before',
    'charge_created/reconcile#1:after',
    'charge_created/declare_call#1:before',
    'charge_created/declare_call#1:after',
    'charge_created/call#1:after',
    'charge_created/commit#1:before',
  ]
  const pairs = duringCall.flatMap((first) => duringRecovery.map((second) => [first, second] as const))
  test.each(pairs)('%s, then %s', async (first, second) => {
    const trial = new RideTrial(database, queryableRideOf)
    expect(await trial.dieAt(first)).toBe('died')
    await passDeadline(trial)
    await database.expireLeases()
    const end = await trial.dieAt(second)
    if (end !== 'died') expect(end.type).toBe('completed')
    await passDeadline(trial)
    await expectRecovered(trial, pool, queryableOracle)
    expect(await trial.provider.requests()).toHaveLength(1)
  })
})

// Shows I2.
describe('at_most_once: a declared call whose result did not commit is stuck, and everything else completes', () => {
  test.each(atMostOnce)('%s', async (at) => {
    const trial = new RideTrial(database, atMostOnceRideOf)
    expect(await trial.dieAt(at)).toBe('died')
    if (!isUnknown(atMostOnce, at)) {
      await expectRecovered(trial, pool, atMostOnceOracle)
      expect(await trial.provider.requests()).toHaveLength(1)
      return
    }
    await expectConsistent(trial)
    const sent = await trial.provider.requests()
    expect(sent.length).toBeLessThanOrEqual(1)
    await database.expireLeases()
    const engine = createEngine(trial.options(pool))
    const outcome = await trial.execute(engine)
    expect(outcome).toMatchObject({
      type: 'stuck',
      reason: 'unknown_outcome',
      recoveryPoint: 'ride_created',
    })
    expect(await trial.row()).toMatchObject({ status: 'stuck', lease_until: null })
    // Neither a client that retries nor one that resumes it by id changes anything.
    expect(await trial.execute(engine)).toEqual(outcome)
    expect((await engine.resume((await trial.row())?.id ?? '')).type).toBe('stuck')
    expect(await trial.provider.requests()).toEqual(sent)
    await engine.close()
  })

  const duringRecovery = ['reserve/take_over_key#1:after', 'give_back/mark_stuck#1:before']
  test.each(duringRecovery)('stays at one attempt when the recovery dies too: %s', async (second) => {
    const trial = new RideTrial(database, atMostOnceRideOf)
    expect(await trial.dieAt('charge_created/call#1:after')).toBe('died')
    await database.expireLeases()
    expect(await trial.dieAt(second)).toBe('died')
    await database.expireLeases()
    expect(await executeOnce(trial)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    expect(await trial.provider.requests()).toHaveLength(1)
  })
})
