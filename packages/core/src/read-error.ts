/** Describes an error that throws whenever one of its members is read. */
export const UNREADABLE = 'an error that could not be read'

/** Enough for an aggregate of addresses that were tried one after the other, for example. */
const MAX_AGGREGATED = 5

/** An error that aggregates itself would never end. */
const MAX_AGGREGATE_DEPTH = 2

/** `instanceof Error` for anything. A proxy that throws does not count as one. */
export function isError(thrown: unknown): thrown is Error {
  try {
    return thrown instanceof Error
  } catch {
    return false
  }
}

/** Reads a member of anything. Anybody can make an error: a member may have any type, or be a getter that throws. */
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

/** The message of an error. It need not be a string: some SDKs put their API's answer there. */
export function messageOf(error: Error, depth = 0): string {
  const message = readMember(error, 'message')
  if (message === '' && depth < MAX_AGGREGATE_DEPTH) return aggregatedMessages(error, depth + 1)
  if (typeof message === 'string') return message
  return isPlain(message) ? String(message) : `(a message of type ${typeof message})`
}

/** Describes something that was thrown but is not an error. */
export function describeNonError(thrown: unknown): string {
  return isPlain(thrown) ? String(thrown) : `non-error thrown: ${typeof thrown}`
}

/** Describes whatever was thrown. */
export function describeThrown(thrown: unknown): string {
  return isError(thrown) ? messageOf(thrown) : describeNonError(thrown)
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
