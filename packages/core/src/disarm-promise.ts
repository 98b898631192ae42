/**
 * Whether a function that has to answer at once returned a promise instead. If so, its rejection is handled: nobody will
 * await it, and an unhandled rejection ends the process.
 */
export function disarmPromise(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('then' in value)) return false
  Promise.resolve(value).catch(() => {})
  return true
}
