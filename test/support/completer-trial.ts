import {
  createBackground,
  type Engine,
  type Service,
  type CompleterCounts,
  type CompleterOptions,
} from '@pawl/core'
import { expect, onTestFinished } from 'vitest'
import { RideTrial } from './ride-trial.js'
import { createEngine, type Database } from './rides.js'
import type { TestDatabase } from './test-database.js'

export const BEFORE_SETTLE = 'charge_created/begin#1:before'

/** Longer than any test: whatever happens earlier was not found by polling. */
export const NEVER_MS = 3_600_000

/** The counts of a round that finds nothing. */
export const NO_COUNTS = { found: 0, completed: 0, retried: 0, stuck: 0, passed: 0, forgotten: 0 }

/** The completer of an engine. Both end with the test. */
export function completerOf(
  engine: Engine<Database>,
  options: CompleterOptions = {},
): Service<CompleterCounts> {
  const { completer } = createBackground({ engine, completer: options, reaper: false })
  if (completer === null) throw new Error('no completer')
  onTestFinished(async () => {
    await completer.stop()
    await engine.close()
  })
  return completer
}

export function engineOf(trial: RideTrial, more = {}): Engine<Database> {
  return createEngine(trial.options(trial.database.pool(), more))
}

/** A ride whose process died at a position: by default, after the charge was made and before it was settled. */
export async function unattendedRide(
  database: TestDatabase,
  pipelineOf?: ConstructorParameters<typeof RideTrial>[1],
  at = BEFORE_SETTLE,
): Promise<RideTrial> {
  const trial = new RideTrial(database, pipelineOf)
  expect(await trial.dieAt(at)).toBe('died')
  return trial
}
