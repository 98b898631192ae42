import type { ProviderRequest } from '../history.js'

const QUESTIONS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/** Whether a request may have an effect. The others only ask. */
export function isStateChanging({ method }: ProviderRequest): boolean {
  return !QUESTIONS.has(method.toUpperCase())
}
