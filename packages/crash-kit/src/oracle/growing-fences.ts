import type { History, Violation } from '../history.js'
import { grantsOf, isGrant } from './grants.js'
import { changedColumns, type KeyState } from './key-state.js'
import { isSteered, type KeyUpdate, keyWrites, updatesByActors } from './key-writes.js'

/** I5: fences grow by one at each grant, and only whoever has the latest one writes. */
export function growingFences(history: History): Violation[] {
  return [...firstFences(history), ...oneMoreEach(history), ...trailsGrow(history), ...onlyTheHolder(history)]
}

const violation = (title: string, detail: string): Violation => ({ rule: 'I5', title, detail })

function firstFences(history: History): Violation[] {
  return keyWrites(history).flatMap(({ op, after, actor }) =>
    op === 'INSERT' && after.fence !== 1
      ? [violation('a key begins with fence 1', `${actor} reserved a key with fence ${after.fence}.`)]
      : [],
  )
}

function oneMoreEach(history: History): Violation[] {
  return updatesByActors(history).flatMap(({ before, after, actor }) => {
    const at = `at '${before.recoveryPoint}'`
    if (before.fence === after.fence) {
      if (before.holder === after.holder) return []
      const detail = `${actor} became the holder ${at} under fence ${after.fence}, which another holder had.`
      return [violation('a fence is granted once', detail)]
    }
    if (after.fence !== before.fence + 1) {
      const detail = `${actor} changed the fence ${at} from ${before.fence} to ${after.fence}.`
      return [violation('a fence grows by one at each grant', detail)]
    }
    if (before.holder !== after.holder) return []
    const detail = `${actor} raised the fence ${at} to ${after.fence} and kept the holder of fence ${before.fence}.`
    return [violation('each grant has a holder of its own', detail)]
  })
}

/** Checks the fences that the trail has for each point. */
function trailsGrow(history: History): Violation[] {
  return updatesByActors(history).flatMap(({ before, after, actor }) => {
    const fences = [0, ...after.trail.map(({ f }) => f), after.fence]
    const falls = fences.some((fence, at) => fence < (fences[at - 1] ?? 0))
    if (!falls || before.trail.length === after.trail.length) return []
    const detail = `${actor} left a trail with fences ${trailOf(after)} on a row with fence ${after.fence}.`
    return [violation('the fences of a trail never fall', detail)]
  })
}

function trailOf({ trail }: KeyState): string {
  return trail.map(({ p, f }) => `${f} ('${p}')`).join(', ')
}

/** Grants belong to I1, and deletions to I9. */
function onlyTheHolder(history: History): Violation[] {
  const grants = grantsOf(history)
  return updatesByActors(history).flatMap((write) => {
    const { before, after, actor } = write
    if (isGrant(write) || isSteered(write.commit) || isPuttingOff(write)) return []
    const granted = grants.find(({ keyId, fence }) => keyId === after.id && fence === after.fence)
    if (granted === undefined || granted.actor === actor) return []
    const detail =
      `${actor} wrote the row at '${before.recoveryPoint}' (${changedColumns(before.row, after.row).join(', ')}), ` +
      `but its fence ${after.fence} had been granted to ${granted.actor}.`
    return [violation('only the actor that was granted the latest fence writes the row', detail)]
  })
}

/** The reaper puts off the expiry of a finished key that a row of the application refers to. */
function isPuttingOff({ before, after }: KeyUpdate): boolean {
  return after.status === 'finished' && changedColumns(before.row, after.row).join() === 'expires_at'
}
