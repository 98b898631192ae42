import { MAX_ERROR_LENGTH, MAX_STACK_LENGTH } from './limits.js'
import { urlAuthorities } from './url-authorities.js'

/** Card numbers, keys of providers and bearer tokens: none of them belongs into a row or a log. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)/g, '[number]'],
  [/\b(?:sk|pk|rk|whsec)_[A-Za-z0-9_]+/g, '[key]'],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]+/gi, '$1 [token]'],
]

/** What else of an error helps whoever reads a log, and holds no value of a request. */
const KEPT_MEMBERS = ['code', 'status', 'statusCode', 'schema', 'table', 'column', 'constraint'] as const

/** A chain of causes that is longer tells nothing more; one that bites its tail would never end. */
const MAX_CAUSES = 5

/** Addresses that were tried one after the other, and such. */
const MAX_AGGREGATED = 5

/**
 * A copy of an error for logs: name, code, message, stack and causes, without secrets and shortened. Everything else that
 * libraries hang on their errors is left out, such as a request with its headers, or PostgreSQL's `detail` with the values of a row.
 * Pawl logs errors like this. Do so with those that you get from its channels and outcomes.
 *
 * @example
 * subscribe('pawl:phase_failed', ({ keyId, error }) => log.warn({ keyId, err: safeError(error) }, 'a phase failed'))
 */
export function safeError(error: unknown): Error {
  return copyOf(error, 0)
}

/** The text without what looks like a secret: card numbers, keys of providers, tokens, and credentials in URLs. */
export function redact(text: string): string {
  return SECRETS.reduce(
    (redacted, [pattern, instead]) => redacted.replace(pattern, instead),
    withoutCredentials(text),
  )
}

function copyOf(error: unknown, depth: number): Error {
  const copy = new Error(redact(messageOf(error)).slice(0, MAX_ERROR_LENGTH))
  if (!(error instanceof Error)) {
    // It has no stack of its own, and ours would mislead.
    delete copy.stack
    return copy
  }
  // Loggers tell the type by the constructor or by the name, which are no members of their own then.
  hide(copy, 'constructor', error.constructor)
  hide(copy, 'name', error.name)
  hide(copy, 'stack', typeof error.stack === 'string' ? redact(error.stack).slice(0, MAX_STACK_LENGTH) : '')
  for (const member of KEPT_MEMBERS) {
    const value = (error as unknown as Record<string, unknown>)[member]
    if (typeof value === 'number') Object.assign(copy, { [member]: value })
    if (typeof value === 'string') Object.assign(copy, { [member]: redact(value).slice(0, MAX_ERROR_LENGTH) })
  }
  if (error.cause instanceof Error && depth < MAX_CAUSES) hide(copy, 'cause', copyOf(error.cause, depth + 1))
  return copy
}

function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '')
    return error.errors.slice(0, MAX_AGGREGATED).map(messageOf).join('; ')
  if (error instanceof Error) return error.message
  const isText = error === null || !['object', 'function'].includes(typeof error)
  return isText ? String(error) : `non-error thrown: ${typeof error}`
}

function hide(copy: Error, member: string, value: unknown): void {
  Object.defineProperty(copy, member, { value, enumerable: false, configurable: true, writable: true })
}

function withoutCredentials(text: string): string {
  let from = 0
  let redacted = ''
  for (const { start, end } of urlAuthorities(text)) {
    const at = text.lastIndexOf('@', end - 1)
    if (at <= start) continue
    redacted += `${text.slice(from, start)}[credentials]`
    from = at
  }
  return redacted + text.slice(from)
}
