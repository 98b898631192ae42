import { IDLE } from './send.js'
import { become, spend, step, withVerdict, write, type Model, type Step } from './step.js'
import type { Actor, ActorName, Run, State } from './state.js'
import { execute } from './statements.js'

export function call({ phases }: Model, state: State, name: ActorName, run: Run): Step {
  const { sent } = state.provider
  // A provider that deduplicates does not care how often it is asked.
  const isCounted = phases[run.point] === 'at_most_once' && isOfThisLife(state, run)
  const provider = isCounted
    ? { ...state.provider, sent: sent.map((count, epoch) => (epoch === run.epoch ? count + 1 : count)) }
    : state.provider
  return step(
    name,
    `calls the provider under key ${run.epoch}`,
    null,
    become({ ...state, provider }, name, { at: 'calling', run }),
  )
}

/** How the provider's answer arrives, or fails to. */
export function answers({ phases, rules }: Model, state: State, name: ActorName, run: Run): Step[] {
  const { epoch } = run
  const verdict = state.provider.verdicts[epoch]
  const executed = isOfThisLife(state, run) ? withVerdict(state, epoch, 'done') : state
  const steps: Step[] = []
  const mayExecute = verdict !== 'refused' || rules.refusedKey === 'may be executed'
  if (mayExecute) {
    const called: Actor = { at: 'running', run: { ...run, intent: 'called' } }
    steps.push(step(name, 'gets the result of its call', null, become(executed, name, called)))
  }
  const givingBack: Actor = { at: 'giving_back', run: { ...run, intent: 'none' }, raiseEpoch: true }
  if (verdict === 'refused') {
    steps.push(step(name, 'is told that the call was refused', null, become(state, name, givingBack)))
  }
  if (verdict === 'none' && state.left.refusals > 0 && isOfThisLife(state, run)) {
    const refused = spend(become(withVerdict(state, epoch, 'refused'), name, givingBack), 'refusals')
    steps.push({ ...step(name, 'has its call refused', null, refused), fault: true })
  }
  if (state.left.losses > 0) {
    const unknown: Actor =
      phases[run.point] === 'at_most_once'
        ? { at: 'marking_stuck', run }
        : { at: 'giving_back', run, raiseEpoch: false }
    const lost = spend(become(withCallUnderWay(state, name, run), name, unknown), 'losses')
    steps.push({ ...step(name, 'gets no answer to its call', null, lost), fault: true })
  }
  return steps
}

export function renew(
  model: Model,
  state: State,
  name: ActorName,
  actor: Actor & { readonly run: Run },
): Step[] {
  if (state.open !== null) return []
  const { hold } = actor.run
  const row = execute(model.rules, state, { do: 'renew', hold })
  if (row === null) {
    const dropped = actor.at === 'calling' ? withCallUnderWay(state, name, actor.run) : state
    return [step(name, 'renews no lease: fenced off', hold, become(dropped, name, IDLE))]
  }
  // Renewing a live lease changes nothing.
  return state.row?.lease === 'live' ? [] : [step(name, 'renews its lease', hold, write(state, row))]
}

/** A request that nobody waits for any more. Once the provider has decided, it would change nothing. */
export function withCallUnderWay(state: State, name: ActorName, run: Run): State {
  const isOpen = state.provider.verdicts[run.epoch] === 'none' && isOfThisLife(state, run)
  return isOpen ? { ...state, late: [...state.late, { by: name, callUnder: run.epoch }] } : state
}

/** Counting ends when the key expires. */
function isOfThisLife(state: State, { hold }: Run): boolean {
  return hold.id === state.lives
}
