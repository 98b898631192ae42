import type { NamedPosition } from '../plan/named-position.js'

/** Statements that commit by themselves, and COMMIT. */
const COMMITTING: ReadonlySet<string> = new Set([
  'commit',
  'insert_key',
  'take_over_key',
  'raise_fence',
  'declare_call',
  'skip_phase',
  'give_back_key',
  'mark_stuck',
  'mark_unheld_stuck',
])

export function isCommitting({ step }: NamedPosition): boolean {
  return COMMITTING.has(step)
}

/** Returns whether something has just been committed. */
export function hasCommitted(position: NamedPosition): boolean {
  return position.when === 'after' && isCommitting(position)
}
