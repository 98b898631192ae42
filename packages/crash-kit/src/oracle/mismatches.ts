import type { History, ReturnedOutcome, Violation } from '../history.js'
import { describeChanges } from './describe-changes.js'
import { keyWrites } from './key-writes.js'

/** I12: another request under the same key gets a mismatch, whatever the state, and has no effect. */
export function mismatches(history: History): Violation[] {
  const { outcomes, commits, calls } = history
  const reserved = new Set(keyWrites(history).flatMap(({ op, actor }) => (op === 'INSERT' ? [actor] : [])))
  // Whoever reserved the key sent the request that counts, whatever it was.
  const suspects = outcomes.filter(({ otherRequest, actor }) => otherRequest && !reserved.has(actor))
  const names = new Set(suspects.map(({ actor }) => actor))
  for (const { actor, otherRequest } of outcomes) if (!otherRequest) names.delete(actor)
  return [
    ...suspects
      .filter((each) => !isAnswered(each))
      .map(({ actor, outcome }) =>
        violation(`${actor} sent another request under the key and got '${outcome.type}'.`),
      ),
    ...suspects.flatMap(({ actor, execution }) =>
      calls
        .filter((call) => call.execution === execution)
        .map(({ phase }) => violation(`${actor} sent another request under the key and called '${phase}'.`)),
    ),
    ...commits
      .filter(({ actor }) => names.has(actor))
      .map((commit) =>
        violation(
          `${commit.actor} sent another request under the key and wrote: ${describeChanges(commit)}.`,
        ),
      ),
    ...wronglyMismatched(history, reserved),
  ]
}

function violation(detail: string): Violation {
  return {
    rule: 'I12',
    title: 'another request under the same key is a mismatch, and changes nothing',
    detail,
  }
}

/** If a fault kept it from reading the row, it cannot know. */
function isAnswered({ outcome, disturbed }: ReturnedOutcome): boolean {
  if (outcome.type === 'mismatch') return true
  const couldNotLook =
    outcome.type === 'unavailable' ||
    (outcome.type === 'in_flight' && outcome.leaseLeftMs === null && !outcome.fencedOff)
  return disturbed && couldNotLook
}

function wronglyMismatched({ outcomes }: History, reserved: ReadonlySet<string>): Violation[] {
  if (outcomes.some(({ actor, otherRequest }) => otherRequest && reserved.has(actor))) return []
  return outcomes
    .filter(({ outcome, otherRequest }) => outcome.type === 'mismatch' && !otherRequest)
    .map(({ actor }) => ({
      rule: 'I12',
      title: 'the same request under the same key is not a mismatch',
      detail: `${actor} sent the same request as the one that reserved the key, and got 'mismatch'.`,
    }))
}
