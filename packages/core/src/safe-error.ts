import { MAX_ERROR_LENGTH, MAX_STACK_LENGTH } from './limits.js'
import { describeNonError, isError, messageOf, nameOf, readMember, UNREADABLE } from './read-error.js'
import { redact } from './redact.js'
import { type Redact, redactMore } from './redact-more.js'

/** Further members of an error that help whoever reads a log, and hold no values of a request. */
const KEPT_MEMBERS = ['code', 'status', 'statusCode', 'schema', 'table', 'column', 'constraint'] as const

/** A longer chain of causes adds nothing; one that loops back to itself would never end. */
const MAX_CAUSES = 5

/**
 * Returns a copy of an error for logs: name, code, message, stack and causes, shortened and without secrets. Everything
 * else that libraries attach to their errors is left out, such as a request with its headers, or PostgreSQL's `detail`
 * with the values of a row. Pawl logs errors this way. Do the same with the errors that you get from its channels and
 * outcomes. It never throws, whatever it is given. `more` takes more out of its texts: pass what `redact` of `createEngine` is.
 *
 * @example
 * subscribe('pawl:phase_failed', ({ keyId, error }) => log.warn({ keyId, err: safeError(error) }, 'a phase failed'))
 */
export function safeError(error: unknown, more: Redact | null = null): Error {
  const redacted = (text: string, maxLength: number): string =>
    redactMore(redact(text, maxLength), more).slice(0, maxLength)
  try {
    return copyOf(error, redacted, 0)
  } catch {
    return withoutStack(UNREADABLE)
  }
}

function copyOf(error: unknown, redacted: (text: string, maxLength: number) => string, depth: number): Error {
  if (!isError(error)) return withoutStack(redacted(describeNonError(error), MAX_ERROR_LENGTH))
  const copy = new Error(redacted(messageOf(error), MAX_ERROR_LENGTH))
  // Loggers learn the type from the constructor or the name, which are then not own members.
  const type = readMember(error, 'constructor')
  if (typeof type === 'function' && typeof readMember(type, 'name') === 'string')
    hide(copy, 'constructor', type)
  hide(copy, 'name', redacted(nameOf(error), MAX_ERROR_LENGTH))
  const stack = readMember(error, 'stack')
  hide(copy, 'stack', typeof stack === 'string' ? redacted(stack, MAX_STACK_LENGTH) : '')
  for (const member of KEPT_MEMBERS) {
    const value = readMember(error, member)
    if (typeof value === 'number') Object.assign(copy, { [member]: value })
    if (typeof value === 'string') Object.assign(copy, { [member]: redacted(value, MAX_ERROR_LENGTH) })
  }
  const cause = readMember(error, 'cause')
  if (isError(cause) && depth < MAX_CAUSES) hide(copy, 'cause', copyOf(cause, redacted, depth + 1))
  return copy
}

/** What was thrown has no stack of its own, and ours would mislead. */
function withoutStack(message: string): Error {
  const copy = new Error(message)
  delete copy.stack
  return copy
}

function hide(copy: Error, member: string, value: unknown): void {
  Object.defineProperty(copy, member, { value, enumerable: false, configurable: true, writable: true })
}
