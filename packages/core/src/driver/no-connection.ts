import { PawlError } from '../errors.js'

/**
 * Why the pool gave no connection. `away`: the server could not be reached, or did not answer while it was being connected
 * to. `busy`: others held them all. `unusable`: there was one, or there could be one, but nothing can be done with it.
 */
export type NoConnectionReason = 'away' | 'busy' | 'unusable'

/** No connection became available. */
export class NoConnectionError extends PawlError {
  readonly reason: NoConnectionReason

  constructor(reason: NoConnectionReason, message: string, options?: { readonly cause?: unknown }) {
    super('PAWL_NO_CONNECTION', message, options)
    this.reason = reason
  }
}
