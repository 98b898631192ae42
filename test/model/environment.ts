import {
  committed,
  type Model,
  NOBODY,
  runStatement,
  spend,
  type Step,
  step,
  withVerdict,
  write,
} from './step.js'
import { ACTOR_NAMES, type Late, type Row, type State } from './state.js'
import { carriedHold, waitsForLock } from './statements.js'

/** Everything that may happen without the actors: time passes, a lost message lands, the reaper comes, a person acts. */
export function environmentSteps(model: Model, state: State): Step[] {
  return [
    ...clock(state),
    ...lateCommit(model, state),
    ...state.late.flatMap((late, index) => lateArrival(model, state, late, index)),
    ...reap(model, state),
    ...(state.left.interventions > 0 ? intervene(model, state) : []),
  ]
}

function clock(state: State): Step[] {
  const { row, open } = state
  if (row === null) return []
  const steps: Step[] = []
  // Time alone writes nothing: whoever has read the row finds it unchanged.
  if (row.lease === 'live') {
    steps.push(step('clock', 'the lease runs out', null, { ...state, row: { ...row, lease: 'over' } }))
  } else if (open?.lease === 'live') {
    const over = { ...state, open: { ...open, lease: 'over' as const } }
    steps.push(step('clock', 'the lease in the open transaction runs out', null, over))
  }
  return steps
}

function lateCommit({ phases }: Model, state: State): Step[] {
  const { open } = state
  if (open?.commitLost !== true) return []
  return [
    step('network', `the commit of ${open.by} lands`, open.hold, committed(phases, state)),
    step('network', `the commit of ${open.by} never happens`, null, { ...state, open: null }),
  ]
}

function lateArrival({ rules, bound }: Model, state: State, late: Late, index: number): Step[] {
  const gone = { ...state, late: state.late.toSpliced(index, 1) }
  const what = 'statement' in late ? `the ${late.statement.do} of ${late.by}` : `the call of ${late.by}`
  const dropped = step('network', `${what} never arrives`, null, gone)
  if ('statement' in late) {
    const { statement } = late
    const isBlocked = state.open !== null && waitsForLock(statement)
    const isBeyond = statement.do === 'insert' && state.lives === bound.lives
    if (isBlocked || isBeyond) return [dropped]
    const landed = runStatement(rules, gone, statement)
    // A message that changes nothing is the same as one that never arrives.
    return landed === gone
      ? [dropped]
      : [step('network', `${what} lands`, carriedHold(statement), landed), dropped]
  }
  const verdict = state.provider.verdicts[late.callUnder]
  const mayExecute = verdict === 'none' || (verdict === 'refused' && rules.refusedKey === 'may be executed')
  if (!mayExecute) return [dropped]
  return [step('network', `${what} is executed`, null, withVerdict(gone, late.callUnder, 'done')), dropped]
}

/** Deletes the row. What we promise for a key ends with its expiry, so counting starts again. */
function reap({ rules }: Model, state: State): Step[] {
  const { row } = state
  if (row === null || state.open !== null || !rules.mayReap(row)) return []
  const { verdicts, sent } = state.provider
  const provider = { verdicts: verdicts.map(() => 'none' as const), sent: sent.map(() => 0) }
  const late = state.late.filter((each) => 'statement' in each)
  return [
    step('reaper', 'deletes the row', null, { ...write({ ...state, provider, late }, null), told: null }),
  ]
}

/** A person unsticks a key and says truthfully what became of its call, or revokes a lease. */
function intervene(model: Model, state: State): Step[] {
  const { row } = state
  if (row === null || state.open !== null) return []
  const by = (what: string, changed: Partial<Row>): Step => {
    const steered = { ...row, fence: row.fence + 1, holder: NOBODY, lease: 'none' as const, ...changed }
    return { ...step('operator', what, null, spend(write(state, steered), 'interventions')), fault: true }
  }
  if (row.status === 'running') return row.lease === 'live' ? [by('takes the lease away', {})] : []
  if (row.status !== 'stuck') return []
  if (model.phases[row.point] !== 'at_most_once' || row.intent !== 'calling') {
    return [by('resumes the key', { status: 'running' })]
  }
  if (state.provider.verdicts[row.epoch] === 'done') {
    return [by('resumes the key: the call was made', { status: 'running', intent: 'called' })]
  }
  const mayStillBeMade =
    state.late.some((late) => 'callUnder' in late) ||
    ACTOR_NAMES.some((name) => ['declared', 'calling'].includes(state.actors[name].at))
  if (mayStillBeMade) return []
  const notMade = { status: 'running', intent: 'none', epoch: row.epoch + 1 } as const
  return [by('resumes the key: the call was not made', notMade)]
}
