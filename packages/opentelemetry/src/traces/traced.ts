import { AsyncLocalStorage } from 'node:async_hooks'
import type { Context, Span } from '@opentelemetry/api'
import type { Tracing } from '@pawl/core/internal'

/** A request that goes on. Its phases come one after the other, so what is said of the present one can be changed. */
export interface TracedRequest {
  /** An engine's phase may ask another engine. */
  readonly by: Tracing
  readonly span: Span
  readonly context: Context
  pipeline: string
  version: number
  /** Of the step that goes on, if one does. */
  phase: string | null
  phaseContext: Context
}

/** A round of a background service that goes on. */
export interface TracedRound {
  readonly span: null
  readonly context: Context
}

/**
 * The request or the round that goes on. Own, because there may be no context manager; and one for all engines, because each more of
 * them makes every promise of the process slower, also after it is no longer used.
 */
export const current = new AsyncLocalStorage<TracedRequest | TracedRound>()
