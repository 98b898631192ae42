import { type DefinePipeline, definePipeline } from './pipeline/define-pipeline.js'
import { createEngine } from './engine/create-engine.js'
import type { Engine } from './engine/engine.js'
import type { EngineOptions } from './engine/engine-options.js'

/** `pipeline` and `createEngine` for one database type. */
export interface Pawl<DB> {
  /** Declares a pipeline on this database. */
  readonly pipeline: DefinePipeline<DB>
  /** Creates an engine on this database. */
  readonly createEngine: (options: EngineOptions<DB>) => Engine<DB>
}

/**
 * Names the application's database type once; every pipeline and engine then knows it.
 *
 * @example
 * export const { pipeline, createEngine } = pawl<Database>()
 */
export function pawl<DB>(): Pawl<DB> {
  return { pipeline: definePipeline as unknown as DefinePipeline<DB>, createEngine: createEngine<DB> }
}
