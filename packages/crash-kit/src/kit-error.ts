/**
 * The base of every error with which the kit says that it was used in a way that cannot work: a stable `code`, a message
 * that says what to do.
 */
export class KitError extends Error {
  override readonly name: string = 'KitError'
  /** Says which error it is; the message may change, this does not. */
  readonly code: string

  constructor(code: string, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}
