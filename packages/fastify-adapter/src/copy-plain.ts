import { MAX_JSON_DEPTH } from '@pawl/core/internal'

/**
 * Copies plain objects and arrays. Bytes, streams and instances of classes are left as they are, with their methods. So
 * is anything nested more deeply than storable JSON, or a client could use up the stack.
 */
export function copyPlain(value: unknown, depth = 0): unknown {
  if (depth > MAX_JSON_DEPTH) return value
  if (Array.isArray(value)) return value.map((item) => copyPlain(item, depth + 1))
  if (typeof value !== 'object' || value === null || !isPlain(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, copyPlain(member, depth + 1)]),
  )
}

/** Whether plain objects and arrays are nested more deeply than storable JSON. */
export function isTooDeep(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (depth > MAX_JSON_DEPTH) return true
  if (!Array.isArray(value) && !isPlain(value)) return false
  return Object.values(value).some((member) => isTooDeep(member, depth + 1))
}

/** Neither an array nor an instance of a class. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}
