import type { Position } from '@pawl/core/internal'
import { KitError } from '../kit-error.js'
import { MAX_SHOWN_TEXT } from '../limits.js'
import { safeText } from '../safe-text.js'

/** A position with its number among those that are alike, so that it is unique in a run. */
export interface NamedPosition extends Position {
  /** Counted from 1. */
  readonly occurrence: number
  /** The whole name, as `phase/step#occurrence:when`. */
  readonly text: string
}

/** What core accepts as the name of a phase. Steps, faults and actors have such names too. */
export const NAME = '[A-Za-z][A-Za-z0-9_.-]*'

// Fifteen digits always fit into a safe integer.
const POSITION = new RegExp(`^(${NAME})/(${NAME})#([1-9][0-9]{0,14}):(before|after)$`)

/** Returns a function that counts the positions of one run, and so gives each a name of its own. */
export function positionNamer(): (position: Position) => NamedPosition {
  const seen = new Map<string, number>()
  return ({ phase, step, when }) => {
    const plain = `${phase}/${step}:${when}`
    const occurrence = (seen.get(plain) ?? 0) + 1
    seen.set(plain, occurrence)
    return named(phase, step, occurrence, when)
  }
}

/**
 * Reads the name of a position.
 *
 * @example
 * parsePosition('charge_created/call#1:after').phase // 'charge_created'
 */
export function parsePosition(text: string): NamedPosition {
  const [, phase, step, occurrence, when] = POSITION.exec(text) ?? []
  if (phase === undefined || step === undefined) {
    throw new KitError(
      'PAWL_KIT_INVALID_REPLAY',
      `'${safeText(text, MAX_SHOWN_TEXT)}' is not a position. It takes phase/step#occurrence:when, such as ` +
        `'charge_created/call#1:after'; when is before or after.`,
    )
  }
  return named(phase, step, Number(occurrence), when as Position['when'])
}

function named(phase: string, step: string, occurrence: number, when: Position['when']): NamedPosition {
  return { phase, step, occurrence, when, text: `${phase}/${step}#${occurrence}:${when}` }
}
