import { MAX_ERROR_LENGTH } from '../limits.js'
import { isError, messageOf, nameOf, readMember, UNREADABLE } from '../read-error.js'
import { redact } from '../redact.js'
import { storableText } from '../storable-text.js'

/**
 * Returns the parts of an error that are stored: its name, code and message, without secrets and without what `text` cannot
 * hold. It never throws, whatever was thrown: the key has to be given back all the same.
 */
export function recordError(error: unknown): string {
  try {
    // Redacted last: removing other text afterwards could bring the halves of a secret together.
    return redact(describe(error), MAX_ERROR_LENGTH, storableText)
  } catch {
    return UNREADABLE
  }
}

function describe(error: unknown): string {
  if (!isError(error)) return typeof error === 'string' ? error : `non-error thrown: ${typeof error}`
  const code = readMember(error, 'code')
  const cause = readMember(error, 'cause')
  const told = typeof code === 'string' ? ` [${code}]` : ''
  const by = isError(cause) ? ` (cause: ${nameOf(cause)}: ${messageOf(cause)})` : ''
  return `${nameOf(error)}${told}: ${messageOf(error)}${by}`
}
