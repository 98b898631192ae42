import { type History, KIT, type Violation } from '../history.js'
import { type KeyState, textIn, whereIs } from './key-state.js'
import { keyWritesIn } from './key-writes.js'

/** I9: what is on record of the effects of an unfinished key stays there: a retry after its expiry is told apart by it. */
export function effectsStay({ commits }: Pick<History, 'commits'>): Violation[] {
  const keys = new Map<string, KeyState>()
  return commits.flatMap((commit) => {
    for (const { before, after } of keyWritesIn(commit)) {
      if (after === null) keys.delete(before.id)
      else keys.set(after.id, after)
    }
    if (commit.actor === KIT) return []
    return commit.changes.flatMap(({ framework, table, op, before }) => {
      const isDeletion = framework && table === 'effects' && op === 'DELETE' && before !== null
      const key = isDeletion ? keys.get(textIn(before, 'key_id')) : undefined
      if (!isDeletion || key === undefined || key.status === 'finished') return []
      const detail =
        `${commit.actor} deleted the effect of '${textIn(before, 'phase')}', ` +
        `while its key was ${key.status} ${whereIs(key)}.`
      return [{ rule: 'I9', title: 'the effects of an unfinished key stay on record', detail }]
    })
  })
}
