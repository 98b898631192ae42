import type { History } from '../history.js'
import { keyWrites } from './key-writes.js'

/**
 * Returns how often the declaration of a phase's call was lost in a failover. Whoever recovers the key cannot know of that call, so
 * no guarantee that depends on declarations can hold.
 */
export function lostDeclarations({ lost }: Pick<History, 'lost'>, phase: string): number {
  return keyWrites({ commits: lost }).filter(
    ({ before, after }) =>
      declaredIn(after?.row['intent']) === phase && declaredIn(before?.row['intent']) !== phase,
  ).length
}

/** Returns the phase whose call an intent declares; null if it declares none. */
export function declaredIn(intent: unknown): string | null {
  const { kind, phase = null } = (intent ?? {}) as { readonly kind?: string; readonly phase?: string }
  return kind === 'calling' ? phase : null
}
