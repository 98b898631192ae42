import type { InterventionView } from '@pawl/core'
import type { KeyRowSummary } from './api.js'

/** Identifies a failed request for the pages. Stable. */
export type ConsoleErrorCode =
  /** What was sent is wrong. Nothing was tried. */
  | 'invalid'
  /** Nobody is signed in. */
  | 'unauthenticated'
  /** They may look, and not do this; or the request did not come from a page of the console. */
  | 'forbidden'
  /** There is no such key, page or route. */
  | 'not_found'
  /** The key is not in a state in which that can be done, or somebody else was first. Nothing changed. */
  | 'refused'
  /** Too many streams are open. */
  | 'busy'
  /** The database cannot be reached. */
  | 'database_away'
  /** The database did not answer in time. */
  | 'too_slow'
  /** The tables are not there, or of another version. */
  | 'not_migrated'
  /** The database's role may not do that. */
  | 'missing_right'
  /** A mistake of ours, or of the application's `authenticate`. The log has it. */
  | 'internal'

/** The status of each. */
export const STATUS_OF = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  refused: 409,
  busy: 503,
  database_away: 503,
  too_slow: 503,
  not_migrated: 503,
  missing_right: 503,
  internal: 500,
} as const satisfies Record<ConsoleErrorCode, number>

/** What a refusal says besides its message. */
export interface RefusalDetail {
  /** Who was first: the last intervention on the key. Null if nobody intervened. */
  readonly by: Pick<InterventionView, 'action' | 'actor' | 'reason' | 'at'> | null
  /** The key as it is now; null where it is gone. */
  readonly key: KeyRowSummary | null
}

/** Something to tell the person at the browser. */
export class ConsoleError extends Error {
  override readonly name = 'ConsoleError'
  readonly code: ConsoleErrorCode
  readonly detail: RefusalDetail | null

  constructor(
    code: ConsoleErrorCode,
    message: string,
    { cause, detail = null }: { readonly cause?: unknown; readonly detail?: RefusalDetail | null } = {},
  ) {
    super(message, { cause })
    this.code = code
    this.detail = detail
  }
}
