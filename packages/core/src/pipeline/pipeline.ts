import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { PipelineDescription } from './describe-pipeline.js'
import type { JsonValue } from './json-value.js'
import type { FinishPhase, Phase, StateObject } from './phase.js'
import type { PipelineSettings } from './settings.js'

/**
 * How rows of an older version continue under this one. Applied together with the take-over, in one fenced UPDATE. Used
 * only where the row's own version is no longer registered.
 *
 * @example
 * upgradesFrom: [{
 *   version: 1,
 *   points: { charge: 'charge_created' },
 *   state: ({ charge, ...rest }) => ({ ...rest, chargeId: charge }),
 * }]
 */
export interface UpgradeFrom {
  /** The older version. */
  readonly version: number
  /** Its recovery points under their new names; points that keep their name need no entry. */
  readonly points?: Readonly<Record<string, string>>
  /** Turns its state into this version's. Default: unchanged. */
  readonly state?: (state: StateObject) => StateObject
}

/** What the engine knows about a pipeline. */
export interface PipelineDefinition {
  readonly name: string
  readonly version: number
  readonly schema: StandardSchemaV1 | null
  readonly fingerprint: ((input: never) => JsonValue) | null
  /** Called before the first phase of a request that was accepted a while ago. */
  readonly authorize: ((context: never) => unknown) | null
  readonly upgradesFrom: readonly UpgradeFrom[]
  readonly phases: readonly Phase[]
  readonly finish: FinishPhase
  readonly settings: PipelineSettings
  readonly hash: string
}

export const definitionOf: unique symbol = Symbol('pawl.definition')
declare const madeByFinish: unique symbol

/**
 * A named, versioned, ordered list of phases that ends in a response. Declare it with `pipeline(...)`, give it to
 * `createEngine`, run it with `engine.execute`.
 */
export interface Pipeline<DB, Input> {
  /**
   * @internal never there: it only carries the types. First, and so named, because that is what the compiler says is
   * missing from a builder.
   */
  readonly [madeByFinish]: { readonly db: (db: DB) => void; readonly input: (input: Input) => void }
  /** Names it in rows, logs and errors. */
  readonly name: string
  /** What rows in flight are pinned to. */
  readonly version: number
  /** Changes exactly when rows in flight could not safely continue under this definition. */
  readonly definitionHash: string
  /** Phases in order, with kinds, guarantees and effect names. */
  describe(): PipelineDescription
  /** The state diagram, as Mermaid text. */
  diagram(): string
  /** @internal */
  readonly [definitionOf]: PipelineDefinition
}

/** Any pipeline that runs on this database. */
export type AnyPipeline<DB> = Pipeline<DB, never>
