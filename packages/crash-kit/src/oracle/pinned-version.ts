import type { History, Violation } from '../history.js'
import { describeChanges } from './describe-changes.js'
import { updatesByActors } from './key-writes.js'

const TITLE = 'a row in flight resumes under its own version or is refused loudly'

/** I10: the version of a row stays the same, and a process that does not know it leaves the row alone. */
export function pinnedVersion(history: History): Violation[] {
  return [...versionsStay(history), ...refusedWriteNothing(history)]
}

function versionsStay(history: History): Violation[] {
  return updatesByActors(history).flatMap(({ before, after, actor }) => {
    if (before.version === after.version && before.definitionHash === after.definitionHash) return []
    const detail =
      `${actor} changed the row at '${before.recoveryPoint}' from version ${before.version} (${before.definitionHash}) ` +
      `to version ${after.version} (${after.definitionHash}).`
    return [{ rule: 'I10', title: TITLE, detail }]
  })
}

/** Checks only actors that never got anything else: what the others wrote may belong to another execution. */
function refusedWriteNothing({ outcomes, commits, calls }: History): Violation[] {
  const refused = new Set(
    outcomes.filter(({ outcome }) => outcome.type === 'refused').map(({ actor }) => actor),
  )
  for (const { actor, outcome } of outcomes) if (outcome.type !== 'refused') refused.delete(actor)
  for (const { actor } of calls) refused.delete(actor)
  return commits
    .filter(({ actor }) => refused.has(actor))
    .map((commit) => ({
      rule: 'I10',
      title: TITLE,
      detail: `${commit.actor} was refused, but wrote: ${describeChanges(commit)}.`,
    }))
}
