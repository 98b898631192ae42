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

/** The result of a step that somebody wanted to take with a key. */
export type Intervention =
  | { readonly type: 'done'; readonly key: KeyView }
  /** Only with `dryRun`: it can be done. Nothing changed. */
  | { readonly type: 'would_be_done'; readonly key: KeyView }
  | { readonly type: 'not_found' }
  /** The key is not in a state in which that can be done, or has moved on meanwhile. Nothing changed. */
  | { readonly type: 'refused'; readonly key: KeyView; readonly detail: string }

/** How a step is taken. */
export interface SteerOptions {
  /** Reports what the step would do, and changes nothing. Default: off. */
  readonly dryRun?: boolean
}
