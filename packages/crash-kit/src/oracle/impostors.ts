import type { History, Told, Violation } from '../history.js'
import { saidOf } from './commit-words.js'
import { keyWrites } from './key-writes.js'

/** I12: another request under the same key is told so, whatever the state, and has no effect. */
export function impostors(history: History): Violation[] {
  const { told, commits, calls } = history
  const reserved = new Set(keyWrites(history).flatMap(({ op, actor }) => (op === 'INSERT' ? [actor] : [])))
  // Who came first is no impostor, whatever it sent.
  const suspects = told.filter(({ impostor, actor }) => impostor && !reserved.has(actor))
  const names = new Set(suspects.map(({ actor }) => actor))
  for (const { actor, impostor } of told) if (!impostor) names.delete(actor)
  return [
    ...suspects
      .filter((each) => !isAnswered(each))
      .map(({ actor, outcome }) =>
        violation(`${actor} sent another request under the key and was told '${outcome.type}'.`),
      ),
    ...suspects.flatMap(({ actor, execution }) =>
      calls
        .filter((call) => call.execution === execution)
        .map(({ phase }) => violation(`${actor} sent another request under the key and called '${phase}'.`)),
    ),
    ...commits
      .filter(({ actor }) => names.has(actor))
      .map((commit) =>
        violation(`${commit.actor} sent another request under the key and wrote: ${saidOf(commit)}.`),
      ),
    ...takenForImpostors(history, reserved),
  ]
}

function violation(detail: string): Violation {
  return {
    rule: 'I12',
    title: 'another request under the same key is a mismatch, and changes nothing',
    detail,
  }
}

/** Where a fault kept it from looking at the row, it cannot know. */
function isAnswered({ outcome, disturbed }: Told): boolean {
  if (outcome.type === 'mismatch') return true
  const couldNotLook =
    outcome.type === 'unavailable' ||
    (outcome.type === 'in_flight' && outcome.leaseLeftMs === null && !outcome.fencedOff)
  return disturbed && couldNotLook
}

function takenForImpostors({ told }: History, reserved: ReadonlySet<string>): Violation[] {
  if (told.some(({ actor, impostor }) => impostor && reserved.has(actor))) return []
  return told
    .filter(({ outcome, impostor }) => outcome.type === 'mismatch' && !impostor)
    .map(({ actor }) => ({
      rule: 'I12',
      title: 'the same request under the same key is no mismatch',
      detail: `${actor} sent the same request as the one that reserved the key, and was told 'mismatch'.`,
    }))
}
