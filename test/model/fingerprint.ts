import {
  type Actor,
  ACTOR_NAMES,
  type ActorName,
  type Hold,
  type Late,
  type Read,
  type Row,
  type State,
} from './state.js'

/**
 * Equal for states that differ only in who is called A, B or C, and in the names of holders that are gone, because such
 * states have the same future. So everything about an actor is written together, without its name, and sorted.
 */
export function fingerprint(state: State): string {
  const { row, open, provider, told, lives, left } = state
  const [first, second, third] = ACTOR_NAMES.map((name) => describeActor(state, name)).toSorted()
  const calls = provider.verdicts.map((verdict, epoch) => `${verdict[0]}${provider.sent[epoch]}`).join('')
  const faults = `${left.crashes}${left.failures}${left.losses}${left.refusals}${left.interventions}`
  const transaction = open === null ? '' : `${open.to}${open.lease[0]}${open.commitLost ? '?' : ''}`
  const shared = `${describeRow(row)}|${transaction}|${calls}${told?.at(-1)}${lives}${faults}`
  return `${shared}|${first}|${second}|${third}`
}

function describeRow(row: Row | null): string {
  if (row === null) return ''
  const { id, fence, lease, point, status, intent, epoch, response } = row
  return `${id}${fence}${lease[0]}${point}${status[0]}${CODES[intent]}${epoch}${response?.at(-1)}`
}

/** It is short, because there are many to compare. */
const CODES = { none: 0, calling: 1, called: 2 } as const

function describeActor(state: State, name: ActorName): string {
  const { row, open } = state
  let all = describeDoing(state.actors[name], row)
  if (open?.by === name) all += `*${describeHold(open.hold, row)}`
  if (state.late.length === 0) return all
  const late = state.late.filter(({ by }) => by === name).map((each) => describeLate(each, row))
  return `${all}${late.toSorted().join('')}`
}

function describeDoing(actor: Actor, row: Row | null): string {
  switch (actor.at) {
    case 'idle':
      return ''
    case 'asking':
      return `as${describeHolder(actor.holder, row)}`
    case 'found':
      return `fo${describeRead(actor.read)}`
    default: {
      const { hold, point, intent, epoch } = actor.run
      const more =
        actor.at === 'giving_back'
          ? actor.raiseEpoch
          : actor.at === 'in_doubt' && actor.raisedAs !== null
            ? describeHolder(actor.raisedAs, row)
            : ''
      return `${actor.at.slice(0, 2)}${describeHold(hold, row)}${point}${CODES[intent]}${epoch}${more}`
    }
  }
}

function describeLate(late: Late, row: Row | null): string {
  if ('callUnder' in late) return `+call${late.callUnder}`
  const { statement } = late
  const parts = Object.entries(statement).map(([field, value]: [string, unknown]) => {
    if (field === 'hold') return describeHold(value as Hold, row)
    if (field === 'read') return describeRead(value as Read)
    if (field === 'holder') return describeHolder(value as string, row)
    return String(value)
  })
  return `+${parts.join()}`
}

function describeRead({ id, fence, point, intent, changed }: Read): string {
  return `${id}${fence}${point}${CODES[intent]}${changed ? '!' : ''}`
}

function describeHold({ id, fence, holder }: Hold, row: Row | null): string {
  return `${id}.${fence}${describeHolder(holder, row)}`
}

/** The holder without the name of its owner, who is known, and whether it is the one in the row. */
function describeHolder(holder: string, row: Row | null): string {
  return `${holder.slice(1)}${holder === row?.holder ? '=' : '~'}`
}
