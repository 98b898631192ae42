import type { JsonValue } from '../pipeline/json-value.js'
import type { KeyView } from './key-view.js'

/** Names one key as its client does. */
export interface KeyName {
  readonly scope: string
  readonly key: string
}

/** Names one key by its row's id, as do logs, channels, dead jobs and the location of a 202. */
export interface KeyId {
  readonly keyId: string
}

/** Says which key is meant, in one of the two ways. */
export type KeyReference = KeyName | KeyId

/** Something that an operator did. */
export interface InterventionView {
  readonly action: string
  readonly actor: string
  readonly reason: string | null
  /** What the row was before, and what was given. */
  readonly detail: JsonValue
  readonly at: Date
}

/** The result of a step that somebody wanted to take with a key. */
export type Intervention =
  | { readonly type: 'done'; readonly key: KeyView }
  /** Only with `dryRun`: it can be done. Nothing changed. */
  | { readonly type: 'would_be_done'; readonly key: KeyView }
  /** With `ifRevision`, `by` says who forgot the key since it was looked at. Null where nobody did. */
  | { readonly type: 'not_found'; readonly by: InterventionView | null }
  /** The key is not in a state in which that can be done, or has moved on meanwhile. Nothing changed. */
  | {
      readonly type: 'refused'
      readonly key: KeyView
      readonly detail: string
      /** With `ifRevision`: what somebody else has done to the key since. Null where nobody has. */
      readonly by: InterventionView | null
    }

/** How a step is taken. */
export interface SteerOptions {
  /** Reports what the step would do, and changes nothing. Default: off. */
  readonly dryRun?: boolean
  /**
   * The `revision` of the key as it was looked at: if anything has happened to it since, the step is refused. Of several people who have
   * looked at the same key, one gets through, and the others are told who that was. Default: the key as it is.
   */
  readonly ifRevision?: number
}
