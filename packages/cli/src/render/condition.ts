import type { KeyView } from '@pawl/core'
import type { Cell } from './table.js'

/** The key's status in the words of the SQL view: who has to act. */
function conditionOf(key: KeyView, now: Date): string {
  switch (key.status) {
    case 'finished':
      return 'finished'
    case 'stuck':
      return 'stuck'
    case 'running':
      if (key.lease?.live === true) return 'held'
      return key.runAfter !== null && key.runAfter > now ? 'backing off' : 'unattended'
  }
}

export function conditionCell(key: KeyView, now: Date): Cell {
  const text = conditionOf(key, now)
  if (text === 'stuck') return { text: `stuck: ${key.stuckReason ?? 'unknown'}`, style: 'red' }
  if (text === 'unattended') return { text, style: 'yellow' }
  return text
}
