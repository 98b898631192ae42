import { checkKnownOptions, checkText, type OptionOwner } from './check-option.js'
import { MAX_ACTOR_LENGTH, MAX_REASON_LENGTH } from './limits.js'

/** Who steps in, and why. Written to `interventions` together with the change. */
export interface Because {
  /** Such as `anna@ops-1`. */
  readonly actor: string
  /** For whoever reads it next year. */
  readonly reason: string
}

export function checkBecause(where: string, because: Because): void {
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where }
  checkKnownOptions(owner, because, ['actor', 'reason'])
  checkActorAndReason(owner, because)
}

/** The same among other options. */
export function checkActorAndReason(owner: OptionOwner, { actor, reason }: Because): void {
  checkText(owner, 'actor', actor, MAX_ACTOR_LENGTH)
  checkText(owner, 'reason', reason, MAX_REASON_LENGTH)
}
