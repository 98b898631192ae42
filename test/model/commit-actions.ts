import { send, IDLE, nameOfHolder, runFrom } from './send.js'
import { become, committed, responseOf, spend, step, tell, type Model, type Step } from './step.js'
import type { Actor, ActorName, Phases, Row, Run, State } from './state.js'

/** The phase's transaction, up to its last statement, which locks the row. */
export function update({ rules, phases }: Model, state: State, name: ActorName, run: Run): Step[] {
  if (state.open !== null) return []
  const { row } = state
  if (row === null || !rules.mayAdvance(row, run.hold, run.point)) {
    return [step(name, 'updates no row: fenced off', null, become(state, name, IDLE))]
  }
  const to = rules.pointAfter(phases, run.point)
  const lease = to === phases.length ? 'none' : 'live'
  const declares = rules.callDeclaredBy === 'the commit before it' && phases[to] === 'at_most_once'
  const open = { by: name, hold: run.hold, to, declares, lease, commitLost: false } as const
  return [
    step(name, `updates the row to ${to}`, null, become({ ...state, open }, name, { at: 'updated', run })),
  ]
}

export function commit({ rules, phases }: Model, state: State, name: ActorName, run: Run): Step[] {
  if (state.open === null) return []
  const done = committed(phases, state)
  const { to } = state.open
  const after = afterCommit({ rules, phases }, run, to)
  const told = tellIfFinished(phases, done, run, to)
  const steps = [step(name, 'commits', run.hold, become(told, name, after))]
  if (state.left.losses === 0) return steps
  const lost = spend({ ...state, open: { ...state.open, commitLost: true } }, 'losses')
  const fault = (what: string, next: State): Step => ({ ...step(name, what, null, next), fault: true })
  steps.push(
    fault(
      'has its transaction ended by the server',
      spend(become({ ...state, open: null }, name, { at: 'running', run }), 'losses'),
    ),
  )
  switch (rules.unknownCommit) {
    case 'raise the fence':
      return [
        ...steps,
        fault('gets no answer to COMMIT', become(lost, name, { at: 'in_doubt', run, raisedAs: null })),
      ]
    case 'take it as failed':
      return [
        ...steps,
        fault('gets no answer to COMMIT, and takes it as failed', become(lost, name, { at: 'running', run })),
      ]
    case 'take it as done':
      return [
        ...steps,
        fault(
          'gets no answer to COMMIT, and takes it as done',
          become(tellIfFinished(phases, lost, run, to), name, after),
        ),
      ]
  }
}

function afterCommit({ rules, phases }: Pick<Model, 'rules' | 'phases'>, run: Run, to: number): Actor {
  if (to === phases.length) return IDLE
  const isDeclared = rules.callDeclaredBy !== 'its own statement' && phases[to] === 'at_most_once'
  if (isDeclared) return { at: 'declared', run: { ...run, point: to, intent: 'calling', epoch: 0 } }
  return { at: 'running', run: { ...run, point: to, intent: 'none', epoch: 0 } }
}

/** Whoever finishes the key answers its client with the same response. */
function tellIfFinished(phases: Phases, state: State, run: Run, to: number): State {
  return to === phases.length ? tell(state, responseOf(run.hold)) : state
}

/** Learns what became of the COMMIT by raising the fence, after which the COMMIT can no longer land. */
export function settleCommit(
  model: Model,
  state: State,
  name: ActorName,
  run: Run,
  raisedAs: string | null,
): Step[] {
  const holder = raisedAs ?? nameOfHolder(name, run.hold.fence + 1)
  const raised = (row: Row): Actor => {
    if (row.status !== 'running') return IDLE
    // A declaration of the commit in doubt is its own, and nothing was called.
    const moved = model.rules.callDeclaredBy === 'its own statement' ? row.intent : 'none'
    const intent = row.point === run.point ? run.intent : moved
    return { at: 'running', run: { ...runFrom(row), intent } }
  }
  const steps = send(
    model,
    state,
    name,
    { do: 'raise', hold: run.hold, holder },
    (after, row) => {
      if (row !== null) return raised(row)
      return raisedAs !== null && after.row?.holder === raisedAs ? raised(after.row) : IDLE
    },
    { at: 'in_doubt', run, raisedAs: holder },
  ).map((each) => ({ ...each, next: tellWhatWasStored(each.next, name) }))
  if (state.left.losses === 0) return steps
  const gone = spend(become(state, name, { at: 'giving_back', run, raiseEpoch: false }), 'losses')
  return [...steps, { ...step(name, 'cannot reach the database, and gives up', null, gone), fault: true }]
}

/** A raise that finds the key finished gives its client the stored response. */
function tellWhatWasStored(state: State, name: ActorName): State {
  const { row } = state
  return row?.response != null && state.actors[name].at === 'idle' ? tell(state, row.response) : state
}
