import { away } from './away.js'
import { cache } from './cache.js'
import { console } from './console.js'
import { duplicates } from './duplicates.js'
import { fresh } from './fresh.js'
import { growth } from './growth.js'
import { guards } from './guards.js'
import { reaper } from './reaper.js'
import { replay } from './replay.js'
import { resume } from './resume.js'
import type { Scenario } from './scenario.js'
import { slowProvider } from './slow-provider.js'
import { start } from './start.js'

/** In the order in which they run. */
export const scenarios = {
  fresh,
  start,
  replay,
  duplicates,
  cache,
  'slow-provider': slowProvider,
  away,
  guards,
  growth,
  reaper,
  console,
  resume,
} satisfies Record<string, Scenario>

export type ScenarioName = keyof typeof scenarios

export const scenarioNames = Object.keys(scenarios) as ScenarioName[]
