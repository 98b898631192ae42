import { announce } from '../announce/announce.js'
import { MAX_ERROR_LENGTH } from '../limits.js'
import { isError, messageOf, nameOf, readMember, UNREADABLE } from '../read-error.js'
import { redact } from '../redact.js'
import { type Redact, redactMore } from '../redact-more.js'
import { storableText } from '../storable-text.js'

/**
 * Returns the parts of an error that are stored: its name, code and message, without secrets and without what `text` cannot
 * hold. It never throws, whatever was thrown: the key has to be given back all the same.
 */
export function recordError(error: unknown, more: Redact | null = null): string {
  try {
    // Redacted last: removing other text afterwards could bring the halves of a secret together.
    const redacted = redact(describe(error), MAX_ERROR_LENGTH, storableText)
    return storableText(redactMore(redacted, more, warn).slice(0, MAX_ERROR_LENGTH))
  } catch {
    return UNREADABLE
  }
}

function warn(message: string, error: unknown): void {
  announce('pawl:warning', () => ({ message, error }))
}

function describe(error: unknown): string {
  if (!isError(error)) return typeof error === 'string' ? error : `non-error thrown: ${typeof error}`
  const code = readMember(error, 'code')
  const cause = readMember(error, 'cause')
  const told = typeof code === 'string' ? ` [${code}]` : ''
  const by = isError(cause) ? ` (cause: ${nameOf(cause)}: ${messageOf(cause)})` : ''
  return `${nameOf(error)}${told}: ${messageOf(error)}${by}`
}
