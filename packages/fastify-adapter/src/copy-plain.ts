/** Copies plain objects and arrays. Bytes, streams and objects of a class are left as they are, with their methods. */
export function copyPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyPlain)
  if (typeof value !== 'object' || value === null) return value
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null
  if (!isPlain) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, copyPlain(member)]))
}
