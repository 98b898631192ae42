/** Identifies the error for scripts: the `code` that `--json` prints. */
export type CliErrorCode =
  /** The command line is wrong. */
  | 'usage'
  /** No connection, or it broke, or the server refused it. */
  | 'database_unavailable'
  /** Pawl's tables are not there, or are older than this tool. */
  | 'not_migrated'
  /** There is no such key, job or pipeline. */
  | 'not_found'
  /** The key is not in a state in which that can be done. Nothing changed. */
  | 'refused'
  /** The given module cannot be loaded, or does not have what is needed. */
  | 'module'
  /** Anything else. */
  | 'failed'

/** Something to tell the operator in one message; not a bug in this tool. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly code: CliErrorCode

  constructor(code: CliErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

export function usageError(message: string): CliError {
  return new CliError('usage', message)
}
