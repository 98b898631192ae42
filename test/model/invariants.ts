import type { Model, Step } from './step.js'
import { ACTOR_NAMES, isSameHold, runOf, type State } from './state.js'

/** Checks a step from a state that was right so far. Returns what is wrong with it, or null. */
export interface Invariant {
  readonly name: string
  readonly complaint: (before: State, step: Step, model: Model) => string | null
}

/** That there is one row is given, because the model has one place for it, as the unique index has. */
export const oneHolder: Invariant = {
  name: "I1 at most one holder, and its lease is nobody else's",
  complaint({ row: before }, { by, carries, next }) {
    const { row, actors } = next
    if (row === null) return null
    const holders = ACTOR_NAMES.filter((name) => {
      const run = runOf(actors[name])
      return run !== null && isSameHold(run.hold, row)
    })
    if (holders.length > 1) return `${holders.join(' and ')} hold the key under fence ${row.fence}`
    // Time and people may end a lease. Otherwise only its holder may.
    if (before?.id !== row.id || by === 'clock' || by === 'operator') return null
    const isItsHolders = carries !== null && isSameHold(carries, before)
    if (isItsHolders || (before.lease === row.lease && before.holder === row.holder)) return null
    if (before.holder !== row.holder && before.lease !== 'live') return null
    return before.holder === row.holder
      ? `the lease of ${before.holder} became '${row.lease}' by somebody else`
      : `the key was taken from ${before.holder}, whose lease was live`
  },
}

export const oneEffect: Invariant = {
  name: 'I2 at most one effect at the provider; at most one attempt of a call that may not be repeated',
  complaint(_before, { next }) {
    const effects = next.provider.verdicts.filter((verdict) => verdict === 'done').length
    if (effects > 1) return `the provider has ${effects} effects, under different keys`
    const attempts = Math.max(...next.provider.sent)
    return attempts > 1 ? `the call was made ${attempts} times` : null
  },
}

export const oneResponse: Invariant = {
  name: 'I3 a finished key keeps its response, and nobody sees another',
  complaint({ row: before }, { next }) {
    if (next.told?.includes('then') === true) return `clients saw ${next.told}`
    if (next.row === null || before?.id !== next.row.id || before.response === null) return null
    const isKept = next.row.response === before.response && next.row.status === 'finished'
    return isKept ? null : `${before.response} was replaced by ${next.row.response ?? 'nothing'}`
  },
}

export const growingFence: Invariant = {
  name: 'I5 fences grow, and no write carries an old one',
  complaint({ row: before }, { carries, next: { row } }) {
    if (row === null || before?.id !== row.id) return null
    if (row.fence < before.fence) return `the fence went back from ${before.fence} to ${row.fence}`
    if (row.holder !== before.holder && row.fence === before.fence) {
      return `fence ${row.fence} was granted twice`
    }
    const isWrite = row !== before
    return isWrite && carries !== null && carries.fence < before.fence
      ? `a write carried fence ${carries.fence}, and ${before.fence} had been granted`
      : null
  },
}

export const forwardOnly: Invariant = {
  name: 'I6 recovery points only move forward, one transaction at a time',
  complaint({ row: before }, { next: { row } }, { phases, rules }) {
    if (row === null || before?.id !== row.id) return null
    return row.point === before.point || row.point === rules.pointAfter(phases, before.point)
      ? null
      : `the recovery point went from ${before.point} to ${row.point}`
  },
}

/** Part of I6 and I7: what is unknown may be taken neither for done nor for failed. */
export const trueBelief: Invariant = {
  name: 'I7 a holder that goes on is at the stored recovery point',
  complaint(_before, { next: { row, actors } }) {
    if (row === null) return null
    for (const name of ACTOR_NAMES) {
      const actor = actors[name]
      if (actor.at !== 'running' && actor.at !== 'declared' && actor.at !== 'calling') continue
      const { hold, point } = actor.run
      if (isSameHold(hold, row) && point !== row.point) {
        return `${name} goes on from ${point}, and the row is at ${row.point}`
      }
    }
    return null
  },
}

/** This is also what I4 says of the foreign phase: no effect without the phases before it. */
export const effectInItsPlace: Invariant = {
  name: 'I4 no call before the phases that come before it, no settled phase without its effect',
  complaint(_before, { next: { row, provider } }, { phases }) {
    const at = phases.findIndex((kind) => kind === 'keyed' || kind === 'at_most_once')
    if (row === null || at === -1) return null
    const hasEffect = provider.verdicts.includes('done')
    if (hasEffect && row.point < at) return `there is an effect, and the row is at ${row.point}`
    return !hasEffect && row.point > at ? `there is no effect, and the row is at ${row.point}` : null
  },
}

export const finishedBeforeReaped: Invariant = {
  name: 'I9 the reaper never removes an unfinished key',
  complaint({ row: before }, { next }) {
    if (before === null || next.row !== null) return null
    return before.status === 'finished' ? null : `a ${before.status} key at ${before.point} was deleted`
  },
}

export const ALL_INVARIANTS: readonly Invariant[] = [
  oneHolder,
  oneEffect,
  oneResponse,
  effectInItsPlace,
  growingFence,
  forwardOnly,
  trueBelief,
  finishedBeforeReaped,
]
