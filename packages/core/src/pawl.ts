import { type DefinePipeline, definePipeline } from './pipeline/define-pipeline.js'
import { createEngine } from './engine/create-engine.js'
import type { Engine } from './engine/engine.js'
import type { EngineOptions } from './engine/engine-options.js'
import { type DefineQuery, defineQuery } from './query/define-query.js'

/** `pipeline`, `createEngine` and `query` for one database type. */
export interface Pawl<DB> {
  /** Declares a pipeline on this database. */
  readonly pipeline: DefinePipeline<DB>
  /** Creates an engine on this database. */
  readonly createEngine: (options: EngineOptions<DB>) => Engine<DB>
  /** Defines a query on this database that is compiled once. */
  readonly query: DefineQuery<DB>
}

/**
 * Names the application's database type once; every pipeline and engine then knows it.
 *
 * @example
 * export const { pipeline, createEngine, query } = pawl<Database>()
 */
export function pawl<DB>(): Pawl<DB> {
  return {
    pipeline: definePipeline as unknown as DefinePipeline<DB>,
    createEngine: createEngine<DB>,
    query: defineQuery as unknown as DefineQuery<DB>,
  }
}
