import type { EngineOptions, JsonValue, Outcome } from '@pawl/core'
import type { PoolConfig } from 'pg'
import type { Window } from '../cast/scene.js'
import type { NamedPosition } from '../finding/position-namer.js'

/** Options as far as they can be sent to another process, and the names of those that cannot. */
export interface Sent<Options> {
  readonly options: Partial<Options>
  /** The child's module has to have these itself. */
  readonly leftOut: readonly string[]
}

/** All that a child has to know. */
export interface ChildStart {
  /** The address of the user's module. */
  readonly module: string
  /** Null: the kit has no provider. */
  readonly providerUrl: string | null
  readonly pool: Sent<PoolConfig>
  readonly engine: Sent<EngineOptions<never>>
  /** The schema of the framework's tables. */
  readonly schema: string
  readonly request: {
    readonly scope: string
    readonly key: string
    readonly input: unknown
    readonly fingerprint?: JsonValue | Uint8Array
  }
  /** The position to die at, as `phase/step#occurrence:when`. Null: it lives. */
  readonly dieAt: string | null
}

/** Which definition a process runs. */
export interface DefinitionName {
  readonly name: string
  readonly version: number
  readonly hash: string
}

/** What a child says. */
export type ChildSays =
  /** The module is imported, and the engine made. */
  | { readonly type: 'ready'; readonly definition: DefinitionName }
  /** It came by a position. */
  | { readonly type: 'at'; readonly position: NamedPosition }
  /** User code is about to run. */
  | {
      readonly type: 'enter'
      readonly id: number
      readonly window: Pick<Window, 'phase' | 'kind' | 'idempotencyKey'>
    }
  /** It has ended. */
  | { readonly type: 'leave'; readonly id: number }
  | { readonly type: 'told'; readonly outcome: Outcome }
  /** It cannot do what it was started for. */
  | { readonly type: 'failed'; readonly why: string }

/** From the child. Each is answered, so that nothing overtakes it: least of all a request to the provider. */
export interface FromChild {
  readonly id: number
  readonly says: ChildSays
}

/** To the child. */
export type ToChild =
  | { readonly type: 'start'; readonly start: ChildStart }
  /** The answer to one of its messages. */
  | { readonly type: 'go'; readonly id: number }

/**
 * A pipe beside the channel, for the last words of a child: where it is about to die. Written synchronously, which the
 * channel does not promise.
 */
export const LAST_WORDS_FD = 4
