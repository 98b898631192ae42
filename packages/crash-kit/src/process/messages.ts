import type { EngineOptions, JsonValue, Outcome } from '@pawl/core'
import type { PoolConfig } from 'pg'
import type { Window } from '../actors/trial.js'
import type { NamedPosition } from '../plan/named-position.js'

/** The options that can be sent to another process, and the names of those that cannot. */
export interface Sent<Options> {
  readonly options: Partial<Options>
  /** The child's module has to export these itself. */
  readonly leftOut: readonly string[]
}

/** Everything that a child has to know. */
export interface ChildStart {
  /** The URL of the user's module. */
  readonly module: string
  /** Null if the kit has no provider. */
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
    readonly bindTo?: string
  }
  /** The position to die at, as `phase/step#occurrence:when`; null if it is not to die. */
  readonly dieAt: string | null
}

/** Which definition a process runs. */
export interface DefinitionName {
  readonly name: string
  readonly version: number
  readonly hash: string
}

/** What a child reports. */
export type ChildMessage =
  /** The module is imported, and the engine made. */
  | { readonly type: 'ready'; readonly definition: DefinitionName }
  /** It passed a position. */
  | { readonly type: 'at'; readonly position: NamedPosition }
  /** User code is about to run. */
  | {
      readonly type: 'enter'
      readonly id: number
      readonly window: Pick<Window, 'phase' | 'kind' | 'idempotencyKey'>
    }
  /** The user code has ended. */
  | { readonly type: 'leave'; readonly id: number }
  | { readonly type: 'outcome'; readonly outcome: Outcome }
  /** It cannot do what it was started for. */
  | { readonly type: 'failed'; readonly why: string }

/** From the child. Each is acknowledged, so that nothing overtakes it, least of all a request to the provider. */
export interface FromChild {
  readonly id: number
  readonly message: ChildMessage
}

/** To the child. */
export type ToChild =
  | { readonly type: 'start'; readonly start: ChildStart }
  /** Acknowledges one of its messages. */
  | { readonly type: 'go'; readonly id: number }

/**
 * A pipe beside the channel, on which a child writes the position at which it is about to die. It writes synchronously, which the
 * channel does not promise.
 */
export const CRASH_POSITION_FD = 4
