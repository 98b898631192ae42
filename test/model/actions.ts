import { answers, call, renew, withCallUnderWay } from './call-actions.js'
import { update, commit, settleCommit } from './commit-actions.js'
import { send, IDLE, nameOfHolder, runFrom } from './send.js'
import { become, NOBODY, spend, step, tell, write, type Model, type Step } from './step.js'
import { ACTOR_NAMES, type Actor, type ActorName, type Run, type State, type Statement } from './state.js'
import { newRow } from './statements.js'

/** Everything that a process may do next. Only one moves at a time, and it may be any of them. */
export function actorSteps(model: Model, state: State): Step[] {
  return ACTOR_NAMES.flatMap((name) => stepsOf(model, state, name))
}

function stepsOf(model: Model, state: State, name: ActorName): Step[] {
  const actor = state.actors[name]
  switch (actor.at) {
    case 'idle':
      return ask(model, state, name, null)
    case 'asking':
      return ask(model, state, name, actor.holder)
    case 'found': {
      const { read } = actor
      const holder = nameOfHolder(name, read.fence + 1)
      const isExhausted = read.fence >= model.bound.grants
      return send(
        model,
        state,
        name,
        { do: isExhausted ? 'mark_unheld_stuck' : 'take_over', read, holder },
        (_after, row) => (row === null || isExhausted ? IDLE : { at: 'running', run: runFrom(row) }),
        isExhausted ? IDLE : { at: 'asking', holder },
      )
    }
    case 'running':
      return [...proceed(model, state, name, actor.run), ...failOrCrash(state, name, actor.run)]
    case 'declared':
      return [
        call(model, state, name, actor.run),
        step(
          name,
          'finds that it is too late to call',
          null,
          become(state, name, {
            at: 'giving_back',
            run: { ...actor.run, intent: 'none' },
            raiseEpoch: false,
          }),
        ),
        ...crash(state, name),
      ]
    case 'calling':
      return [
        ...answers(model, state, name, actor.run),
        ...renew(model, state, name, actor),
        ...crash(state, name),
      ]
    case 'updated':
      return [...commit(model, state, name, actor.run), ...crash(state, name)]
    case 'in_doubt':
      return [...settleCommit(model, state, name, actor.run, actor.raisedAs), ...crash(state, name)]
    case 'giving_back': {
      const { run, raiseEpoch } = actor
      const giveBack: Statement = { do: 'give_back', hold: run.hold, intent: run.intent, raiseEpoch }
      return [...send(model, state, name, giveBack, () => IDLE, IDLE), ...crash(state, name)]
    }
    case 'marking_stuck': {
      const markStuck: Statement = { do: 'mark_stuck', hold: actor.run.hold, intent: 'calling' }
      return [...send(model, state, name, markStuck, () => IDLE, IDLE), ...crash(state, name)]
    }
  }
}

/** A client, a duplicate or the completer asks for the key: it reserves the key, or reads the row and decides. */
function ask(model: Model, state: State, name: ActorName, lostAs: string | null): Step[] {
  const { row } = state
  if (row === null) return state.lives < model.bound.lives ? insert(model, state, name) : []
  if (row.response !== null) {
    const next = become(tell(state, row.response), name, IDLE)
    return next.told === state.told && lostAs === null ? [] : [step(name, 'replays the response', null, next)]
  }
  if (row.holder === lostAs && row.status === 'running') {
    return [
      step(
        name,
        'finds that its grant went through',
        null,
        become(state, name, { at: 'running', run: runFrom(row) }),
      ),
    ]
  }
  if (row.status === 'stuck' || row.lease === 'live') {
    return lostAs === null ? [] : [step(name, 'is told to come back later', null, become(state, name, IDLE))]
  }
  const { id, fence, point, intent } = row
  const read = { id, fence, point, intent, changed: false }
  return [step(name, 'reads the row: nobody holds it', null, become(state, name, { at: 'found', read }))]
}

function insert(model: Model, state: State, name: ActorName): Step[] {
  const holder = nameOfHolder(name, 1)
  const enqueued = newRow(state.lives + 1, NOBODY, 'none')
  return [
    ...send(
      model,
      state,
      name,
      { do: 'insert', holder },
      (_after, row) => (row === null ? IDLE : { at: 'running', run: runFrom(row) }),
      { at: 'asking', holder },
    ),
    step(name, 'enqueues the key', null, { ...write(state, enqueued), lives: state.lives + 1 }),
  ]
}

/** The loop's next step, from what the holder has in memory. */
function proceed(model: Model, state: State, name: ActorName, run: Run): Step[] {
  const kind = model.phases[run.point]
  if (kind === 'local' || kind === 'finish' || run.intent === 'called') return update(model, state, name, run)
  if (kind === 'keyed')
    return [call(model, state, name, run), ...renew(model, state, name, { at: 'running', run })]
  if (run.intent === 'calling') {
    return [step(name, 'may not call a second time', null, become(state, name, { at: 'marking_stuck', run }))]
  }
  const declared: Actor = { at: 'declared', run: { ...run, intent: 'calling' } }
  return send(
    model,
    state,
    name,
    { do: 'declare', hold: run.hold },
    (_after, row) => (row === null ? IDLE : declared),
    { at: 'in_doubt', run, raisedAs: null },
  )
}

function failOrCrash(state: State, name: ActorName, run: Run): Step[] {
  if (state.left.failures === 0) return crash(state, name)
  const givingBack = spend(become(state, name, { at: 'giving_back', run, raiseEpoch: false }), 'failures')
  return [{ ...step(name, 'fails in the phase', null, givingBack), fault: true }, ...crash(state, name)]
}

/** Everything that it had in memory is gone. The server ends its transaction, and what it has sent is under way. */
function crash(state: State, name: ActorName): Step[] {
  if (state.left.crashes === 0) return []
  const actor = state.actors[name]
  const sent = actor.at === 'calling' ? withCallUnderWay(state, name, actor.run) : state
  const { open } = sent
  const ended = open?.by === name && !open.commitLost ? { ...sent, open: null } : sent
  return [{ ...step(name, 'crashes', null, spend(become(ended, name, IDLE), 'crashes')), fault: true }]
}
