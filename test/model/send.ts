import { become, type Model, runStatement, spend, type Step, step } from './step.js'
import type { Actor, ActorName, Row, Run, State, Statement } from './state.js'
import { carriedHold, waitsForLock } from './statements.js'

/** A statement is answered, or its sender does not know its fate. */
export function send(
  { rules }: Model,
  state: State,
  name: ActorName,
  statement: Statement,
  answered: (after: State, row: Row | null) => Actor,
  unanswered: Actor,
): Step[] {
  const steps: Step[] = []
  if (state.open === null || !waitsForLock(statement)) {
    const after = runStatement(rules, state, statement)
    const found = after === state ? null : after.row
    const what = `${statement.do}${found === null ? ': no row' : ''}`
    steps.push(step(name, what, carriedHold(statement), become(after, name, answered(after, found))))
  }
  if (state.left.losses > 0) {
    const late = [...state.late, { by: name, statement }]
    const lost = spend(become({ ...state, late }, name, unanswered), 'losses')
    steps.push({ ...step(name, `${statement.do}: no answer`, null, lost), fault: true })
  }
  return steps
}

export const IDLE: Actor = { at: 'idle' }

/** Stands for a random name, because each fence is granted once per row. */
export function nameOfHolder(name: ActorName, fence: number): string {
  return `${name}${fence}`
}

export function runFrom({ id, fence, holder, point, intent, epoch }: Row): Run {
  return { hold: { id, fence, holder }, point, intent, epoch }
}
