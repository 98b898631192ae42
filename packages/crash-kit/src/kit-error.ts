/**
 * The base of every error by which the kit reports that it cannot test. It has a stable `code`, and a message that says what to
 * do.
 */
export class KitError extends Error {
  override readonly name: string = 'KitError'
  /** Identifies the error. The message may change; this does not. */
  readonly code: string

  constructor(code: string, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}
