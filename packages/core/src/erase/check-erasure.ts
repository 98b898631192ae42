import { checkActorAndReason } from '../because.js'
import {
  checkFlag,
  checkKnownOptions,
  checkText,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import {
  DEFAULT_RETENTION_MS,
  MAX_DURATION_MS,
  MAX_KEY_LENGTH,
  MAX_SCOPE_LENGTH,
  MIN_SCOPE_IN_REASON,
} from '../limits.js'
import type { Erasure } from './erasure.js'

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'erase' }
const NAMES = [
  'scope',
  'key',
  'actor',
  'reason',
  'windowMs',
  'recentEffects',
  'undeliveredJobs',
  'dryRun',
] as const satisfies readonly (keyof Erasure)[]

/** An erasure with its defaults filled in. */
export interface CheckedErasure extends Required<Omit<Erasure, 'key'>> {
  readonly key: string | null
}

/** `windowMs`: as long as the providers of the pipelines that are known here remember, if any are. */
export function checkErasure(erasure: Erasure, windowMs: number = DEFAULT_RETENTION_MS): CheckedErasure {
  checkKnownOptions(OWNER, erasure, NAMES)
  const { scope, key, actor, reason } = erasure
  checkText(OWNER, 'scope', scope, MAX_SCOPE_LENGTH)
  if (key !== undefined) checkText(OWNER, 'key', key, MAX_KEY_LENGTH)
  checkActorAndReason(OWNER, { actor, reason })
  for (const option of ['recentEffects', 'undeliveredJobs', 'dryRun'] as const) {
    checkFlag(OWNER, option, erasure[option])
  }
  checkWholeNumber(OWNER, 'windowMs', erasure.windowMs, 0, MAX_DURATION_MS)
  refuseNamesIn('actor', actor, erasure)
  refuseNamesIn('reason', reason, erasure)
  return {
    scope,
    key: key ?? null,
    actor,
    reason,
    windowMs: erasure.windowMs ?? windowMs,
    recentEffects: erasure.recentEffects ?? false,
    undeliveredJobs: erasure.undeliveredJobs ?? false,
    dryRun: erasure.dryRun ?? false,
  }
}

/** The record of an erasure is kept for ever, so it must not hold what was erased. */
function refuseNamesIn(option: string, text: string, { scope, key }: Erasure): void {
  for (const name of [scope, key ?? '']) {
    if (name.length >= MIN_SCOPE_IN_REASON && text.includes(name))
      throw invalidOption(
        OWNER,
        option,
        'a text that names what is erased',
        'one that does not: the record is kept',
      )
  }
}
