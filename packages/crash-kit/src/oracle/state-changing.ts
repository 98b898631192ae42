import type { ProviderRequest } from '../history.js'

const QUERY_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/** Returns whether a request may have an effect. The others only query. */
export function isStateChanging({ method }: ProviderRequest): boolean {
  return !QUERY_METHODS.has(method.toUpperCase())
}
