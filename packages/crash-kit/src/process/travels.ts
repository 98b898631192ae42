import type { Sent } from './messages.js'

/** Options that can be sent to another process, and the names of those that cannot, such as functions. */
export function sendable<Options extends object>(options: Options): Sent<Options> {
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  return {
    options: Object.fromEntries(given.filter(([, value]) => travels(value))) as Partial<Options>,
    leftOut: given.filter(([, value]) => !travels(value)).map(([name]) => name),
  }
}

/** Whether a value is the same after it was sent: plain data, and bytes. */
export function travels(value: unknown): boolean {
  if (typeof value === 'function' || typeof value === 'symbol') return false
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return true
  if (Array.isArray(value)) return value.every(travels)
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === Object.prototype || prototype === null
  return isPlain && Object.values(value).every(travels)
}
