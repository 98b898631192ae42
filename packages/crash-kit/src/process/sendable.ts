import type { Sent } from './messages.js'

/** Returns the options that can be sent to another process, and the names of those that cannot, such as functions. */
export function sendableOptions<Options extends object>(options: Options): Sent<Options> {
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  return {
    options: Object.fromEntries(given.filter(([, value]) => isSendable(value))) as Partial<Options>,
    leftOut: given.filter(([, value]) => !isSendable(value)).map(([name]) => name),
  }
}

/** Returns whether a value stays the same when it is sent, as plain data and bytes do. */
export function isSendable(value: unknown): boolean {
  if (typeof value === 'function' || typeof value === 'symbol') return false
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return true
  if (Array.isArray(value)) return value.every(isSendable)
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === Object.prototype || prototype === null
  return isPlain && Object.values(value).every(isSendable)
}
