import type { NamedPosition } from '../plan/named-position.js'

/** Returns the timeline's text for a position; null for those that mean nothing to a reader. */
export function timelineText({ phase, step, when }: NamedPosition): string | null {
  if (when === 'before') {
    if (step === 'call') return `calls ${phase}`
    if (step === 'reconcile') return `asks the provider about ${phase}`
    return null
  }
  switch (step) {
    case 'insert_key':
      return 'asked for the key'
    case 'take_over_key':
      return 'asked to take the key over'
    case 'raise_fence':
      return 'raised its fence'
    case 'declare_call':
      return `declared the call of ${phase}`
    case 'call':
      return `got the answer to ${phase}`
    case 'advance_key':
    case 'finish_key':
      return `wrote the recovery point ${phase}, not committed yet`
    case 'skip_phase':
      return `skipped ${phase}`
    case 'commit':
      return `committed ${phase}`
    case 'rollback':
      return `rolled ${phase} back`
    case 'give_back_key':
      return 'gave the key back'
    case 'mark_stuck':
    case 'mark_unheld_stuck':
      return 'handed the key to a person'
    case 'renew_leases':
      return 'renewed its lease'
    case 'reap_keys':
    case 'reap_these_keys':
      return 'deleted expired keys'
    default:
      return null
  }
}
