import type { History, Violation } from '../history.js'

/** I17: what an engine's `protect` hides is stored sealed, and opens in its own row and column only. */
export function sealedValues({ exposed = [] }: History): Violation[] {
  return exposed.map((detail) => ({
    rule: 'I17',
    title: 'what is protected is sealed, and opens nowhere but in its own place',
    detail,
  }))
}
