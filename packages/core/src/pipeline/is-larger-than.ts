import { isPlainObject } from '../is-plain-object.js'

/**
 * Whether the JSON of a value has more bytes than this. It never counts more than the text would have, and stops as soon
 * as it knows, so that what a client sent can be refused before anything else is done with it. It does not look into
 * instances of classes.
 */
export function isLargerThan(value: unknown, maxBytes: number): boolean {
  let bytes = 0
  const toCount: unknown[] = [value]
  while (toCount.length > 0) {
    const counted = toCount.pop()
    bytes += ownBytes(counted)
    // Checked before we go through the members: their separators alone may be too many.
    if (bytes > maxBytes) return true
    if (Array.isArray(counted)) for (const item of counted) toCount.push(item)
    else if (isPlainObject(counted)) {
      for (const [name, member] of Object.entries(counted)) {
        if (member === undefined) continue
        bytes += Buffer.byteLength(name) + NAME_BYTES
        toCount.push(member)
      }
    }
  }
  return false
}

/** `"":` without the comma, which the last member does not have. */
const NAME_BYTES = 3

/** The size of the value without its members; an array's commas count as its own. */
function ownBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value) + 2
  if (Array.isArray(value)) return 2 + Math.max(0, value.length - 1)
  if (ArrayBuffer.isView(value)) return value.byteLength
  return typeof value === 'object' && value !== null ? 2 : 1
}
