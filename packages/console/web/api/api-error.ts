import type { AsJson, ErrorAnswer } from '../../src/api.js'
import type { ConsoleErrorCode } from '../../src/console-error.js'

type Told = AsJson<ErrorAnswer>['error']

/** A request to the API that did not succeed. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  /** `unreachable`: no answer came. `unreadable`: one that the console did not send, such as a proxy's. */
  readonly code: ConsoleErrorCode | 'unreachable' | 'unreadable'
  /** Of a refusal: who was first. */
  readonly by: NonNullable<Told['by']> | null
  /** Of a refusal: the key as it is now. */
  readonly key: NonNullable<Told['key']> | null

  constructor(code: ApiError['code'], message: string, told: Partial<Told> = {}) {
    super(message)
    this.code = code
    this.by = told.by ?? null
    this.key = told.key ?? null
  }
}

/** Anything that was thrown, as something to tell a person. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  const detail = error instanceof Error ? error.message : String(error)
  return new ApiError('internal', `The page met an error: ${detail}`)
}
