import type { Rules } from './rules.js'
import {
  type Actor,
  ACTOR_NAMES,
  type ActorName,
  type Bound,
  type Hold,
  type Phases,
  type Row,
  type State,
  type Statement,
  type Verdict,
} from './state.js'
import { execute } from './statements.js'

/** What is explored. */
export interface Model {
  readonly phases: Phases
  readonly rules: Rules
  readonly bound: Bound
}

/** Something that may happen next. */
export interface Step {
  readonly by: ActorName | 'clock' | 'network' | 'reaper' | 'operator'
  readonly what: string
  /** The grant that a write is conditional on. */
  readonly carries: Hold | null
  /** It happens only as long as things go wrong. */
  readonly fault: boolean
  readonly next: State
}

/** The state after a statement, which is the same state if it found no row. */
export function runStatement(rules: Rules, state: State, statement: Statement): State {
  const isPassedBy = state.open !== null && statement.do !== 'insert'
  const row = isPassedBy ? null : execute(rules, state, statement)
  if (row === null) return state
  return { ...write(state, row), lives: row.id }
}

/** Everybody who has read the row before can see that it was written, if they check. */
export function write(state: State, row: Row | null): State {
  return { ...state, row, ...outdated(state) }
}

function outdated(state: State): Pick<State, 'actors' | 'late'> {
  const actors = { ...state.actors }
  for (const name of ACTOR_NAMES) {
    const actor = actors[name]
    if (actor.at === 'found') actors[name] = { at: 'found', read: { ...actor.read, changed: true } }
  }
  const late = state.late.map((each) =>
    'statement' in each && 'read' in each.statement
      ? { ...each, statement: { ...each.statement, read: { ...each.statement.read, changed: true } } }
      : each,
  )
  return { actors, late }
}

export function withVerdict(state: State, epoch: number, verdict: Verdict): State {
  const verdicts = state.provider.verdicts.map((each, index) => (index === epoch ? verdict : each))
  return { ...state, provider: { ...state.provider, verdicts } }
}

/** The row once the open transaction has committed. */
export function committed(phases: Phases, state: State): State {
  const { row, open } = state
  if (row === null || open === null) return { ...state, open: null }
  const isFinish = open.to === phases.length
  const moved: Row = {
    ...row,
    point: open.to,
    lease: open.lease,
    intent: open.declares ? 'calling' : 'none',
    epoch: 0,
    status: isFinish ? 'finished' : 'running',
    response: isFinish ? responseOf(open.hold) : row.response,
  }
  return { ...write(state, moved), open: null }
}

export function tell(state: State, response: string): State {
  if (state.told === null) return { ...state, told: response }
  return state.told === response ? state : { ...state, told: `${state.told}, then ${response}` }
}

/** The holder of a row that no process holds. */
export const NOBODY = '-'

export function responseOf({ fence }: Hold): string {
  return `response ${fence}`
}

export function become(state: State, name: ActorName, actor: Actor): State {
  return { ...state, actors: { ...state.actors, [name]: actor } }
}

export function spend(state: State, fault: keyof State['left']): State {
  return { ...state, left: { ...state.left, [fault]: state.left[fault] - 1 } }
}

export function step(by: Step['by'], what: string, carries: Hold | null, next: State): Step {
  return { by, what, carries, fault: false, next }
}
