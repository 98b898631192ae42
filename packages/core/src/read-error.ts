/** Said of an error that throws at whatever is asked of it. */
export const UNREADABLE = 'an error that could not be read'

/** Addresses that were tried one after the other, and such. */
const MAX_AGGREGATED = 5

/** One that aggregates itself would never end. */
const MAX_AGGREGATE_DEPTH = 2

/** `instanceof Error` of anything, such as a proxy that throws: then it is none. */
export function isError(thrown: unknown): thrown is Error {
  try {
    return thrown instanceof Error
  } catch {
    return false
  }
}

/** A member of anything. Errors are made by anybody: a member may be of any type, or a getter that throws. */
export function readMember(of: unknown, member: string): unknown {
  try {
    return (of as Readonly<Record<string, unknown>> | null | undefined)?.[member]
  } catch {
    return undefined
  }
}

/** The name of an error's type. */
export function nameOf(error: Error): string {
  const name = readMember(error, 'name')
  return typeof name === 'string' ? name : 'Error'
}

/** The message of an error. It need not be a text: some SDKs put the answer of their API there. */
export function messageOf(error: Error, depth = 0): string {
  const message = readMember(error, 'message')
  if (message === '' && depth < MAX_AGGREGATE_DEPTH) return aggregatedMessages(error, depth + 1)
  if (typeof message === 'string') return message
  return isPlain(message) ? String(message) : `(a message of type ${typeof message})`
}

/** What is told of anything that is thrown and is no error. */
export function describeNonError(thrown: unknown): string {
  return isPlain(thrown) ? String(thrown) : `non-error thrown: ${typeof thrown}`
}

function isPlain(value: unknown): boolean {
  return value === null || !['object', 'function'].includes(typeof value)
}

function aggregatedMessages(error: Error, depth: number): string {
  try {
    const errors = readMember(error, 'errors')
    if (!Array.isArray(errors)) return ''
    const told = (each: unknown) => (isError(each) ? messageOf(each, depth) : describeNonError(each))
    return errors.slice(0, MAX_AGGREGATED).map(told).join('; ')
  } catch {
    return ''
  }
}
