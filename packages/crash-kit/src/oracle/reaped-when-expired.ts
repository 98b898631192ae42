import { type History, KIT, type PipelineShape, type Violation } from '../history.js'
import { textIn, whereIs } from './key-state.js'
import { type KeyDelete, keyWrites } from './key-writes.js'

/** I9: a key is deleted only when it is finished and expired. */
export function reapedWhenExpired(history: History): Violation[] {
  return deletions(history).flatMap((write) => {
    const { before, actor, atMs } = write
    if (isDue(write)) return []
    const left = before.expiresMs === null ? 'for ever' : `for ${before.expiresMs - Math.floor(atMs)} ms more`
    const detail =
      before.status === 'finished'
        ? `${actor} deleted the finished key ${before.id}, which was to be kept ${left}.`
        : `${actor} deleted the key ${whereIs(before)}, which was ${before.status}.`
    return [{ rule: 'I9', title: 'a key is deleted only when it is finished and expired', detail }]
  })
}

/**
 * Returns how often the key was rightly deleted with everything that was known of it, so that the same request is a new one. While
 * an effect is on record, or a call was made whose outcome nobody knows, only `afterExpiry: 'run'` makes it one.
 */
export function timesForgotten(history: History, { runsAgain }: PipelineShape): number {
  const recorded = new Set(
    history.commits
      .flatMap(({ changes }) => changes)
      .flatMap(({ framework, table, after }) =>
        framework && table === 'effects' && after !== null ? [textIn(after, 'key_id')] : [],
      ),
  )
  const mayHaveHadAnEffect = ({ before }: KeyDelete): boolean =>
    recorded.has(before.id) || before.trail.some(({ u }) => u === true)
  return deletions(history).filter(
    (write) => isDue(write) && (runsAgain === true || !mayHaveHadAnEffect(write)),
  ).length
}

function deletions(history: History): KeyDelete[] {
  return keyWrites(history).filter(
    (write): write is KeyDelete => write.op === 'DELETE' && write.actor !== KIT,
  )
}

function isDue({ before, atMs }: KeyDelete): boolean {
  return before.status === 'finished' && before.expiresMs !== null && before.expiresMs <= atMs
}
