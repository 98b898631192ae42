/**
 * Whether a function that has to answer at once gave a promise instead. Its rejection is taken care of: nobody will
 * await it, and an unhandled one ends the process.
 */
export function disarmPromise(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('then' in value)) return false
  Promise.resolve(value).catch(() => {})
  return true
}
