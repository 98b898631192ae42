import type { Engine } from './engine.js'
import type { EngineOptions } from './engine-options.js'
import { RunningEngine } from './running-engine.js'

/**
 * Creates an engine on a `pg.Pool`.
 *
 * @example
 * const engine = createEngine<Database>({ pool, pipelines: [createRide] })
 */
export function createEngine<DB>(options: EngineOptions<DB>): Engine<DB> {
  return new RunningEngine<DB>(options, null)
}
