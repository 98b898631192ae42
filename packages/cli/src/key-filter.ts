import type { KeyFilter, StuckReason } from '@pawl/core'
import { type Given, value } from './command.js'
import { parseDuration } from './parse/duration.js'
import { parseOneOf, parseText, parseWholeNumber } from './parse/value.js'

/** A record, so that the compiler complains when a new reason is missing. */
const STUCK_REASONS = Object.keys({
  attempts_exhausted: true,
  too_old: true,
  unknown_outcome: true,
  window_passed: true,
  transaction_ended: true,
} satisfies Record<StuckReason, true>) as StuckReason[]

/** Which keys are meant: the same options in every command that takes several keys. */
export const filterOptions = {
  pipeline: value('NAME', parseText, 'only keys of this pipeline'),
  version: value('N', parseWholeNumber(1, 2 ** 31 - 1), 'only keys pinned to this version'),
  point: value('NAME', parseText, 'only keys at this recovery point'),
  scope: value('SCOPE', parseText, 'only keys of this scope'),
  'stuck-reason': value('REASON', parseOneOf(STUCK_REASONS), STUCK_REASONS.join(', ')),
  'older-than': value('DURATION', parseDuration, 'only keys reserved longer ago than this'),
} as const

export function filterOf(options: Given<typeof filterOptions>): KeyFilter {
  const { pipeline, version, point, scope } = options
  const stuckReason = options['stuck-reason']
  const olderThanMs = options['older-than']
  return {
    ...(pipeline !== undefined && { pipeline }),
    ...(version !== undefined && { version }),
    ...(point !== undefined && { recoveryPoint: point }),
    ...(scope !== undefined && { scope }),
    ...(stuckReason !== undefined && { stuckReason }),
    ...(olderThanMs !== undefined && { olderThanMs }),
  }
}
