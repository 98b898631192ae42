import { MAX_ERROR_LENGTH } from '../limits.js'
import { redact } from '../safe-error.js'

/** What of an error is stored: its name, code and message, without secrets and without what `text` cannot hold. */
export function recordError(error: unknown): string {
  // Redacted last: what is taken out before must not bring the halves of a secret together.
  return redact(storableText(describe(error))).slice(0, MAX_ERROR_LENGTH)
}

/** PostgreSQL's `text` takes neither NUL nor lone surrogates; a provider may send both, after the charge. */
export function storableText(text: string): string {
  return text.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '')
}

function describe(error: unknown): string {
  if (!(error instanceof Error))
    return typeof error === 'string' ? error : `non-error thrown: ${typeof error}`
  const code = 'code' in error && typeof error.code === 'string' ? ` [${error.code}]` : ''
  const cause = error.cause instanceof Error ? ` (cause: ${error.cause.name}: ${error.cause.message})` : ''
  return `${error.name}${code}: ${error.message}${cause}`
}
