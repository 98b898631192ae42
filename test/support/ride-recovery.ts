import type pg from 'pg'
import { expect } from 'vitest'
import { RideTrial } from './ride-trial.js'
import { createEngine } from './rides.js'

/** What an undisturbed ride leaves behind, with which crashed rides are compared. */
export async function tracesWithoutCrash(trial: RideTrial, pool: pg.Pool): Promise<unknown> {
  const engine = createEngine(trial.options(pool))
  const outcome = await trial.execute(engine)
  await engine.close()
  if (outcome.type !== 'completed') throw outcome
  return trial.traces(outcome.response)
}

/** Expects that committed rows exist exactly when the recovery point is at or past the phase that writes them. */
export async function expectConsistent(trial: RideTrial): Promise<void> {
  const point = (await trial.row())?.recovery_point
  const rides = await trial.rides()
  expect(rides).toHaveLength(point === undefined || point === 'started' ? 0 : 1)
  expect(typeof rides[0]?.charge_id === 'string').toBe(point === 'charge_created' || point === 'finished')
}

/** Expects another engine to take the request over and end it as if nothing had happened, and a third execution to replay it. */
export async function expectRecovered(trial: RideTrial, pool: pg.Pool, oracle: unknown): Promise<void> {
  await expectConsistent(trial)
  const before = await trial.row()
  await trial.database.expireLeases()
  const engine = createEngine(trial.options(pool))
  const outcome = await trial.execute(engine)
  if (outcome.type !== 'completed' && outcome.type !== 'replayed') throw outcome
  expect(outcome.type).toBe(before?.status === 'finished' ? 'replayed' : 'completed')
  expect(await trial.traces(outcome.response)).toEqual(oracle)

  const row = await trial.row()
  const granted = before?.status === 'finished' || before === null ? 0 : 1
  expect(Number(row?.fence)).toBe(Number(before?.fence ?? 1) + granted)
  const fences = row?.trail.map(({ f }) => f) ?? []
  expect(fences).toEqual(fences.toSorted((a, b) => a - b))
  expect(row?.trail.slice(0, before?.trail.length ?? 0)).toEqual(before?.trail ?? [])

  expect(await trial.execute(engine)).toEqual({ ...outcome, type: 'replayed' })
  expect(pool.idleCount).toBe(pool.totalCount)
  await engine.close()
}
