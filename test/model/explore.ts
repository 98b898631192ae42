import { actorSteps } from './actions.js'
import { environmentSteps } from './environment.js'
import type { Invariant } from './invariants.js'
import { type Model, type Step } from './step.js'
import { fingerprint } from './fingerprint.js'
import { initialState, type State } from './state.js'
import type { Trace } from './trace.js'

export interface Exploration {
  readonly states: number
  readonly steps: number
  /** How many steps the farthest state is away from the beginning. */
  readonly depth: number
  /** Everything that happened somewhere. */
  readonly happened: ReadonlySet<string>
  /** The shortest way to break an invariant. */
  readonly refutation: Trace | null
  /** The shortest way to a state from which, without further faults, the key can neither finish nor get stuck. */
  readonly deadEnd: Trace | null
}

interface Visit {
  readonly state: State
  readonly from: Visit | null
  readonly step: Step | null
  readonly depth: number
  /** The states from which a step that is not a fault leads here. */
  readonly ledFrom: Visit[]
  canEnd: boolean
}

/** Visits every state that can be reached, the nearest first, and ends at the first one that breaks an invariant. */
export function explore(model: Model, invariants: readonly Invariant[]): Exploration {
  const start: Visit = {
    state: initialState(model.bound),
    from: null,
    step: null,
    depth: 0,
    ledFrom: [],
    canEnd: false,
  }
  const visits = [start]
  const known = new Map([[fingerprint(start.state), start]])
  const happened = new Set<string>()
  let steps = 0
  let last = start
  const explored = { states: 0, steps, depth: 0, happened, refutation: null, deadEnd: null }
  for (const visit of visits) {
    last = visit
    for (const step of stepsFrom(model, visit.state)) {
      steps++
      happened.add(step.what)
      for (const { name, complaint } of invariants) {
        const wrong = complaint(visit.state, step, model)
        if (wrong === null) continue
        const refutation = { steps: [...wayTo(visit), step], complaint: wrong, invariant: name }
        return { ...explored, states: visits.length, steps, depth: visit.depth + 1, refutation }
      }
      const state = step.next
      const key = fingerprint(state)
      let next = known.get(key)
      if (next === undefined) {
        next = { state, from: visit, step, depth: visit.depth + 1, ledFrom: [], canEnd: false }
        known.set(key, next)
        visits.push(next)
      }
      if (!step.fault) next.ledFrom.push(visit)
    }
  }
  return { ...explored, states: visits.length, steps, depth: last.depth, deadEnd: findDeadEnd(visits) }
}

/** Only one moves at a time, and it may be any of them. Once the key's last row is gone, nothing can be written. */
export function stepsFrom(model: Model, state: State): Step[] {
  if (state.row === null && state.lives === model.bound.lives) return []
  return [...actorSteps(model, state), ...environmentSteps(model, state)]
}

/** Goes backwards from all ends. A state that it does not meet leads to none of them. */
function findDeadEnd(visits: readonly Visit[]): Trace | null {
  const ends = visits.filter(({ state: { row, lives } }) =>
    row === null ? lives > 0 : row.status !== 'running',
  )
  for (const end of ends) end.canEnd = true
  const open = [...ends]
  for (let visit = open.pop(); visit !== undefined; visit = open.pop()) {
    for (const before of visit.ledFrom) {
      if (before.canEnd) continue
      before.canEnd = true
      open.push(before)
    }
  }
  const stranded = visits.find(({ canEnd }) => !canEnd)
  if (stranded === undefined) return null
  const complaint = 'from here, the key can neither finish nor get stuck'
  return { steps: wayTo(stranded), complaint, invariant: 'L1 once faults stop, every key ends' }
}

function wayTo(visit: Visit): Step[] {
  const steps: Step[] = []
  for (let at: Visit | null = visit; at !== null; at = at.from) {
    if (at.step !== null) steps.unshift(at.step)
  }
  return steps
}
