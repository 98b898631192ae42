import type { EngineOptions, JsonValue, Pipeline } from '@pawl/core'
import type { KitDatabase } from '../database/kit-database.js'
import type { PipelineShape } from '../history.js'
import type { ProviderControls } from '../provider/provider-controls.js'
import type { Pools } from './pools.js'

/** What all cases of one kit share. */
export interface Environment {
  readonly database: KitDatabase
  readonly provider: ProviderControls | null
  readonly pools: Pools
  /** Called for each engine, so that a crash also takes away what a pipeline keeps in its closure. */
  readonly pipeline: () => Pipeline<never, never>
  readonly shape: PipelineShape
  readonly engine: Partial<EngineOptions<never>>
  readonly request: KitRequest
  /** The process's unhandled rejections, as they come. */
  readonly rejections: unknown[]
}

/** The request that every case sends, under a key of its own. */
interface KitRequest {
  readonly scope: string
  readonly input: unknown
  readonly fingerprint?: JsonValue | Uint8Array
  readonly bindTo?: string
}
