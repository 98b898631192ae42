import type { History, Violation } from '../history.js'
import { answerIn, isTransient, finalOutcomes } from './answers.js'
import { keyWrites } from './key-writes.js'

/** I7: what is not certain is neither stored nor returned as final. */
export function finalAnswers(history: History): Violation[] {
  return [...storedForGood(history), ...finalOnlyWhenStored(history)]
}

function storedForGood(history: History): Violation[] {
  return keyWrites(history).flatMap(({ before, after, actor }) => {
    const status = after === null ? null : (answerIn(after.row)?.status ?? null)
    const isNew = before === null || answerIn(before.row)?.status !== status
    if (status === null || !isNew || !isTransient(status)) return []
    const detail = `${actor} stored a response with status ${status}, which a retry can change, under fence ${after?.fence}.`
    return [{ rule: 'I7', title: 'a transient status is never stored', detail }]
  })
}

function finalOnlyWhenStored(history: History): Violation[] {
  const finished = new Set(
    keyWrites(history).flatMap(({ after }) => (after?.status === 'finished' ? [after.id] : [])),
  )
  return finalOutcomes(history)
    .filter(({ outcome }) => !finished.has(outcome.keyId))
    .map(({ actor, outcome }) => ({
      rule: 'I7',
      title: 'a response is final only when it is stored',
      detail: `${actor} got '${outcome.type}' with ${outcome.response.status}, but the key ${outcome.keyId} was never finished.`,
    }))
}
