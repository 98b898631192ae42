import type { Guarantee } from './phase.js'

/** A pipeline as an engine recorded it in the database, for tools that do not have its code. */
export interface RecordedPipeline {
  readonly name: string
  readonly version: number
  readonly definitionHash: string
  /** `atomic`: it belongs to an atomic handler. */
  readonly kind: 'pipeline' | 'atomic'
  /** The engine's `namespace`, which is a part of every key that providers get; null where it is not known. */
  readonly namespace: string | null
  /** In order; the last one is `finished`. */
  readonly phases: readonly RecordedPhase[]
  readonly maxAttempts: number
  readonly maxAgeMs: number
  readonly retentionMs: number
  /** How many phases share a transaction. */
  readonly commits: 'each' | 'fewest'
  /** When an engine last recorded it. */
  readonly recordedAt: Date
}

/** A phase of it. What is null does not apply to its kind. */
export interface RecordedPhase {
  readonly name: string
  readonly kind: 'local' | 'foreign' | 'finish'
  /** Whether it may be skipped. */
  readonly conditional: boolean
  readonly guarantee: Guarantee | null
  readonly effectName: string | null
  /** For how long the provider knows the key of a call, with `keyed`. */
  readonly windowMs: number | null
  /** For how long after the end of a call "absent" is not believed, with `queryable`. */
  readonly quietForMs: number | null
  /** Whether the provider can be asked what became of a call. */
  readonly canReconcile: boolean
  /** Whether the request goes on without a call whose outcome is unknown. */
  readonly goesOnWhenUnknown: boolean
  readonly callTimeoutMs: number | null
  readonly leaseMs: number
}
