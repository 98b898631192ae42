import type { Position } from '@pawl/core/internal'
import { KitError } from '../kit-error.js'
import { MAX_SHOWN_TEXT } from '../limits.js'
import { safeText } from './safe-text.js'

/** A position with its number among those that are alike, so that it is one of its kind in a run. */
export interface NamedPosition extends Position {
  /** From 1. */
  readonly occurrence: number
  /** All of it, as `phase/step#occurrence:when`. */
  readonly text: string
}

/** What the core takes as a name of a phase; steps, faults and actors are named likewise. */
export const NAME = '[A-Za-z][A-Za-z0-9_.-]*'

// Fifteen digits are a safe integer.
const POSITION = new RegExp(`^(${NAME})/(${NAME})#([1-9][0-9]{0,14}):(before|after)$`)

/** Counts the positions of one run, so that each has a name of its own. */
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
