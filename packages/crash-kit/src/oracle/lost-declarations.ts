import type { History } from '../history.js'
import { keyWrites } from './key-writes.js'

/**
 * How often the declaration of a phase's call was lost in a failover. Whoever recovers the key cannot know of that call: no
 * guarantee that goes by declarations can hold.
 */
export function lostDeclarations({ lost }: Pick<History, 'lost'>, phase: string): number {
  return keyWrites({ commits: lost }).filter(
    ({ before, after }) =>
      declaredIn(after?.row['intent']) === phase && declaredIn(before?.row['intent']) !== phase,
  ).length
}

/** Which phase's call is declared by an intent; null: none. */
export function declaredIn(intent: unknown): string | null {
  const { kind, phase = null } = (intent ?? {}) as { readonly kind?: string; readonly phase?: string }
  return kind === 'calling' ? phase : null
}
