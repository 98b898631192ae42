import type { History, Violation } from '../history.js'
import { answerIn, answerOf, isSameAnswer, describeAnswer, finalOutcomes } from './answers.js'
import { keyWrites, lastStates } from './key-writes.js'

const TITLE = 'every final response of a key is the same, byte for byte'

/** I3: whoever gets a final response of a key gets the one that is stored. */
export function sameResponse(history: History): Violation[] {
  return [...sameForAll(history), ...storedOnce(history)]
}

function sameForAll(history: History): Violation[] {
  const rows = lastStates(history)
  const firsts = new Map<string, { readonly said: string; readonly answer: ReturnType<typeof answerOf> }>()
  return finalOutcomes(history).flatMap(({ actor, outcome }) => {
    const { keyId, type } = outcome
    const answer = answerOf(outcome.response)
    const row = rows.get(keyId)?.state.row
    const stored = row === undefined ? null : answerIn(row)
    const first = firsts.get(keyId) ?? { said: `${actor} got ${describeAnswer(answer)}`, answer }
    firsts.set(keyId, first)
    const said = `${actor} got '${type}' with ${describeAnswer(answer)}`
    if (stored !== null && !isSameAnswer(stored, answer)) {
      return [{ rule: 'I3', title: TITLE, detail: `${said}, but the row has ${describeAnswer(stored)}.` }]
    }
    if (isSameAnswer(first.answer, answer)) return []
    return [{ rule: 'I3', title: TITLE, detail: `${said}, but before that, ${first.said}.` }]
  })
}

function storedOnce(history: History): Violation[] {
  return keyWrites(history).flatMap(({ op, before, after, actor }) => {
    const [was, is] = op === 'UPDATE' ? [answerIn(before.row), answerIn(after.row)] : [null, null]
    if (was === null || (is !== null && isSameAnswer(was, is))) return []
    const now = is === null ? 'nothing' : describeAnswer(is)
    return [
      { rule: 'I3', title: TITLE, detail: `${actor} replaced the stored ${describeAnswer(was)} by ${now}.` },
    ]
  })
}
