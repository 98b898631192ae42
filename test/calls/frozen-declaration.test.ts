import type { PipelineSettings } from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { atMostOnceRideOf } from '../support/guarded-rides.js'
import { tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const LEASE_MS = 400

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const oracle = await tracesWithoutCrash(new RideTrial(database, atMostOnceRideOf), database.pool())

/** Declares the call, and stands still until the short lease, or the short time-out of the call, is over. */
async function freezeAfterDeclaring(trial: RideTrial, defaults: PipelineSettings = { leaseMs: LEASE_MS }) {
  const options = trial.options(database.pool(), { defaults })
  const { engine, stops, passed } = engineWithStops(options, 'charge_created/declare_call#1:after')
  const [declared] = stops
  const execution = trial.execute(engine)
  await declared.reached
  await database.rows('SELECT pg_sleep($1)', [(LEASE_MS + 50) / 1_000])
  return { engine, execution, passed, wake: declared.go }
}

describe('a process frozen between the declaration of its call and the call', () => {
  test('does not send a call that another process has meanwhile left to a person', async () => {
    const trial = new RideTrial(database, atMostOnceRideOf)
    const { engine, execution, wake } = await freezeAfterDeclaring(trial)
    const other = createEngine(trial.options())
    const stuck = await trial.execute(other)
    expect(stuck).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    wake()
    expect(await execution).toEqual(stuck)
    expect(await trial.provider.requests()).toEqual([])
    await Promise.all([engine.close(), other.close()])
  })

  test('declares the call again, and sends it, if nobody has taken the key', async () => {
    const trial = new RideTrial(database, atMostOnceRideOf)
    const { engine, execution, passed, wake } = await freezeAfterDeclaring(trial)
    wake()
    const finished = await execution
    if (finished.type !== 'completed') throw finished
    expect(passed).toContain('charge_created/declare_call#2:after')
    expect(await trial.provider.requests()).toHaveLength(1)
    expect(await trial.traces(finished.response)).toEqual(oracle)
    await engine.close()
  })

  test('declares the call again if the declared deadline has passed, even though the lease has not', async () => {
    const trial = new RideTrial(database, atMostOnceRideOf)
    const { engine, execution, passed, wake } = await freezeAfterDeclaring(trial, { callTimeoutMs: LEASE_MS })
    wake()
    const finished = await execution
    if (finished.type !== 'completed') throw finished
    expect(passed).toContain('charge_created/declare_call#2:after')
    expect(await trial.traces(finished.response)).toEqual(oracle)
    await engine.close()
  })

  test('sends nothing if it is frozen a second time', async () => {
    const trial = new RideTrial(database, atMostOnceRideOf)
    const options = trial.options(database.pool(), { defaults: { leaseMs: LEASE_MS } })
    const { engine, stops } = engineWithStops(
      options,
      'charge_created/declare_call#1:after',
      'charge_created/declare_call#2:after',
    )
    const execution = trial.execute(engine)
    for (const stop of stops) {
      await stop.reached
      await database.rows('SELECT pg_sleep($1)', [(LEASE_MS + 50) / 1_000])
      stop.go()
    }
    expect(await execution).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_LEASE_LOST' } })
    expect(await trial.provider.requests()).toEqual([])
    await engine.close()
  })
})
