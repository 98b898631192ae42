import { announce } from '../announce/announce.js'
import { MAX_ERROR_LENGTH } from '../limits.js'
import { isError, messageOf, nameOf, readMember, UNREADABLE } from '../read-error.js'
import { redact } from '../redact.js'
import { storableText } from '../storable-text.js'

/**
 * Returns the parts of an error that are stored: its name, code and message, without secrets and without what `text` cannot
 * hold. It never throws, whatever was thrown: the key has to be given back all the same.
 */
export function recordError(error: unknown, more: Redact | null = null): string {
  try {
    // Redacted last: removing other text afterwards could bring the halves of a secret together.
    return redactMore(redact(describe(error), MAX_ERROR_LENGTH, storableText), more)
  } catch {
    return UNREADABLE
  }
}

/** What the application takes out of texts, in addition to what Pawl does. */
export type Redact = (text: string) => string

/** Nothing is kept of a text that the application could not redact: what it hides would be in it. */
const NOT_REDACTED = 'an error that the option redact could not redact'

function redactMore(text: string, more: Redact | null): string {
  if (more === null) return text
  try {
    const redacted: unknown = more(text)
    if (typeof redacted === 'string') return storableText(redacted.slice(0, MAX_ERROR_LENGTH))
    announce('pawl:warning', () => ({ message: 'the option redact returned no text', error: null }))
  } catch (error) {
    announce('pawl:warning', () => ({ message: 'the option redact threw', error }))
  }
  return NOT_REDACTED
}

function describe(error: unknown): string {
  if (!isError(error)) return typeof error === 'string' ? error : `non-error thrown: ${typeof error}`
  const code = readMember(error, 'code')
  const cause = readMember(error, 'cause')
  const told = typeof code === 'string' ? ` [${code}]` : ''
  const by = isError(cause) ? ` (cause: ${nameOf(cause)}: ${messageOf(cause)})` : ''
  return `${nameOf(error)}${told}: ${messageOf(error)}${by}`
}
