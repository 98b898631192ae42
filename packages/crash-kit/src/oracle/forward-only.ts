import type { History, PipelineShape, Violation } from '../history.js'
import { type KeyUpdate, updatesByActors } from './key-writes.js'
import { isSameJson } from './same-json.js'

/** I6: recovery points move forward, phase by phase, and the trail lists them. */
export function forwardOnly(history: History, { points }: PipelineShape): Violation[] {
  return updatesByActors(history).flatMap((write) => {
    const detail = movedWrong(write, points) ?? trailWrong(write, points)
    return detail === null
      ? []
      : [
          {
            rule: 'I6',
            title: 'a recovery point moves forward, and every phase that it passes is in the trail',
            detail,
          },
        ]
  })
}

function movedWrong({ before, after, actor }: KeyUpdate, points: readonly string[]): string | null {
  const [from, to] = [points.indexOf(before.recoveryPoint), points.indexOf(after.recoveryPoint)]
  const moved = `${actor} moved the key from '${before.recoveryPoint}' to '${after.recoveryPoint}' under fence ${after.fence}`
  if (to === -1) return `${moved}, which is not a point of the pipeline.`
  return to < from ? `${moved}, which is backwards.` : null
}

/** The trail keeps its entries, and gets one for each point that was reached or skipped. A phase may respond before the end. */
function trailWrong({ before, after, actor }: KeyUpdate, points: readonly string[]): string | null {
  const kept = after.trail.slice(0, before.trail.length)
  if (!isSameJson(kept as never, before.trail as never)) {
    return `${actor} changed the trail of the key at '${before.recoveryPoint}': ${said(before)} became ${said(after)}.`
  }
  const added = after.trail.slice(before.trail.length).map(({ p }) => p)
  const passed = points.slice(
    points.indexOf(before.recoveryPoint) + 1,
    points.indexOf(after.recoveryPoint) + 1,
  )
  const isWhole = added.join() === passed.join()
  const isCutShort =
    after.recoveryPoint === 'finished' &&
    before.recoveryPoint !== 'finished' &&
    added.at(-1) === 'finished' &&
    added.slice(0, -1).every((point, at) => point === passed[at])
  if (isWhole || isCutShort) return null
  return (
    `${actor} moved the key from '${before.recoveryPoint}' to '${after.recoveryPoint}' under fence ${after.fence}, ` +
    `but added ${added.length === 0 ? 'nothing' : added.map((point) => `'${point}'`).join(', ')} to the trail.`
  )
}

function said({ trail }: KeyUpdate['after']): string {
  return trail.length === 0 ? 'nothing' : trail.map(({ p }) => `'${p}'`).join(', ')
}
