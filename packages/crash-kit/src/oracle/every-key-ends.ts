import type { History, Violation } from '../history.js'
import { whereIs } from './key-state.js'
import { lastStates } from './key-writes.js'

/** L1: once faults have stopped, the completer brings every key to an end. */
export function everyKeyEnds(history: History): Violation[] {
  const unended = [...lastStates(history).values()]
    .filter(({ state, deleted }) => !deleted && state.status === 'running')
    .map(({ state }) => violation(`The key ${state.id} was left running, ${whereIs(state)}.`))
  if (history.completerRounds !== null) return unended
  return [violation('The completer did not end the key in the rounds it had.'), ...unended]
}

function violation(detail: string): Violation {
  return { rule: 'L1', title: 'once faults stop, every key reaches finished or stuck', detail }
}
