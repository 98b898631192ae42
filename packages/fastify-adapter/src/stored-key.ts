import { createHash } from 'node:crypto'
import { MAX_KEY_LENGTH } from './limits.js'

/** Between a route and the client's key. No client can send it, so no client can spell another route's key. */
const SEPARATOR = ' → '

/** What distinguishes a route from all others, and stays the same as long as it is the same route. */
export function patternOf(method: string, route: string, constraints: string | null): string {
  // Without the names of parameters, which may change without changing the route. A double colon stands for a colon in
  // the path.
  const pattern = route.replaceAll(/::|:[A-Za-z0-9_]+/g, (found) => (found === '::' ? found : ':'))
  return `${method} ${pattern}${constraints === null ? '' : ` (${constraints})`}`
}

/** The key as stored where keys are unique per route: readable if there is room, hashed if not. */
export function keyOfRoute(method: string, route: string, constraints: string | null, key: string): string {
  const readable = `${patternOf(method, route, constraints)}${SEPARATOR}${key}`
  if (readable.length <= MAX_KEY_LENGTH) return readable
  return `sha256${SEPARATOR}${createHash('sha256').update(readable).digest('hex')}`
}
