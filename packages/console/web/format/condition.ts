import type { AsJson, KeyRowSummary } from '../../src/api.js'

/** Where a key is in its life, as lists and the map tell it. */
export type Condition = 'held' | 'backing_off' | 'unattended' | 'stuck' | 'finished'

/** What it is called, and what it means. */
export const CONDITION_TEXT: Readonly<
  Record<Condition, { readonly word: string; readonly meaning: string }>
> = {
  held: { word: 'held', meaning: 'A process holds its lease and runs it.' },
  backing_off: {
    word: 'backing off',
    meaning: 'It rests after a failed attempt, and then goes on by itself.',
  },
  unattended: { word: 'unattended', meaning: 'It is due, and nobody runs it. A completer takes it next.' },
  stuck: { word: 'stuck', meaning: 'No automatic step may touch it any more: a person decides.' },
  finished: { word: 'finished', meaning: 'Its response is stored, and every retry gets it.' },
}

/** By the database's clock. */
export function conditionOf(
  key: Pick<AsJson<KeyRowSummary>, 'status' | 'lease' | 'runAfter'>,
  now: number,
): Condition {
  if (key.status !== 'running') return key.status
  if (key.lease !== null && Date.parse(key.lease.until) > now) return 'held'
  return key.runAfter !== null && Date.parse(key.runAfter) > now ? 'backing_off' : 'unattended'
}
