import type { EngineOptions } from '@pawl/core'
import type { CrashKit, Finding } from '@pawl/crash-kit'
import pg from 'pg'
import { inject } from 'vitest'
import { chargeAt, findAt } from './charge-at.js'
import { createRideTables, type RideOf } from './ride-of.js'
import { isDeduplicated } from './rides.js'
import type { EngineUnderTest } from './load-variant.js'
import type { Search } from './variant.js'
import { BOUND, guarded } from '../support/guards.js'
import { LAYOUT } from '../support/layout.js'

/** What the kit found in an engine or a pipeline, and after how many cases. */
export interface Searched {
  readonly finding: Finding | null
  readonly cases: number
}

/** As many schedules as a weakness that only a race shows may need. */
const RACES = 400

/** How often the kit is asked again if it could not compare: both runs without faults have to be broken in the same way. */
const COMPARE_TRIES = 10

/** Lets the crash kit search for something wrong with an engine, or with a ride on it. */
export async function findWeakness(
  engine: EngineUnderTest,
  rideOf: RideOf,
  search: Search,
  races = RACES,
  options: Partial<EngineOptions<never>> = {},
): Promise<Searched> {
  for (let tries = 1; ; tries++) {
    try {
      return await searchOnce(engine, rideOf, search, races, options)
    } catch (error) {
      if (!cannotCompare(error) || tries === COMPARE_TRIES) throw error
    }
  }
}

/** A broken engine may break its two runs without faults in different ways. The kit says so, and judges neither. */
function cannotCompare(error: unknown): boolean {
  return error instanceof Error && error.message.includes('two runs without faults already differ')
}

async function searchOnce(
  { core, kit }: EngineUnderTest,
  rideOf: RideOf,
  search: Search,
  races: number,
  options: Partial<EngineOptions<never>>,
): Promise<Searched> {
  const { crashKit, fakeProvider } = await kit()
  const provider = fakeProvider(isDeduplicated(rideOf) ? {} : { keyOf: null })
  const pool = new pg.Pool({ connectionString: inject('databaseUrl') })
  const running = crashKit({
    pipeline: () => rideOf(core, chargeAt(provider.url), findAt(provider.url)),
    pool,
    provider,
    ...LAYOUT,
    prepare: (place) => createRideTables(place.pool, place.schema, place.pawlSchema),
    request: { scope: 'rider-1', input: { amount: 1_200 }, ...BOUND },
    // The kit has to find what a wrong ride does, so the engine must not refuse it.
    engine: guarded({ ...options, strict: false }, core),
  })
  try {
    await run(running, search, races)
    return { finding: null, cases: running.casesRun }
  } catch (error) {
    if (!isFinding(error)) throw error
    return { finding: error, cases: running.casesRun }
  } finally {
    await running.close()
  }
}

async function run(kit: CrashKit, search: Search, races: number): Promise<void> {
  switch (search.by) {
    case 'clean run':
      return kit.replay('no faults')
    case 'faults':
      return kit.exhaustive({ faults: search.faults, depth: search.depth })
    case 'races':
      return kit.races({ actors: search.actors, runs: races })
  }
}

/** Compares by name, because each engine has its own kit with its own class. */
function isFinding(error: unknown): error is Finding {
  return error instanceof Error && error.name === 'Finding'
}
