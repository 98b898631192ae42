import { expect, test } from 'vitest'
import { explore, stepsFrom } from './explore.js'
import { fingerprint } from './fingerprint.js'
import { ALL_INVARIANTS } from './invariants.js'
import { IS_DEEP, onlyDeep } from '../support/amounts.js'
import { PROTOCOL, PROTOCOL_IN_LEGS } from './rules.js'
import { type Bound, initialState, type Phases } from './state.js'
import { printTrace } from './trace.js'

const WITHOUT_FAULTS: Bound = {
  grants: 2,
  lives: 1,
  crashes: 0,
  failures: 0,
  losses: 0,
  refusals: 0,
  interventions: 0,
}

/** A blind model finds nothing, so each of these has to happen somewhere. */
const RESERVED_RUN_AND_REAPED = [
  'insert',
  'enqueues the key',
  'take_over',
  'mark_unheld_stuck',
  'commits',
  'deletes the row',
]
const LOST = [
  'gets no answer to COMMIT',
  'the commit of A lands',
  'the commit of B never happens',
  'raise',
  'raise: no row',
  'the insert of A lands',
  'the take_over of B lands',
  'finds that its grant went through',
]
const FROZEN = [
  'take_over: no row',
  'give_back: no row',
  'updates no row: fenced off',
  'renews no lease: fenced off',
]

interface Case {
  readonly name: string
  readonly phases: Phases
  /** Phases between two calls share a transaction. */
  readonly inLegs?: true
  readonly faults: Partial<Bound>
  readonly happens: readonly string[]
  /** Has so many states that it takes as long as the others together. */
  readonly isDeep?: true
  /** Whoever changes the model should notice that its shape has changed. `docs/state-machine.md` has this number as well. */
  readonly states: number
}

// Each takes seconds. Allowing one more of anything makes several times as many states.
const CASES: readonly Case[] = [
  {
    name: 'with a crash, a loss and a refusal',
    phases: ['local', 'keyed', 'finish'],
    faults: { crashes: 1, losses: 1, refusals: 1 },
    happens: [...LOST, ...FROZEN, 'crashes', 'the call of A is executed', 'has its call refused'],
    states: 60_366,
    isDeep: true,
  },
  {
    name: 'with a crash and a loss, where the call may not be repeated',
    phases: ['at_most_once', 'finish'],
    faults: { crashes: 1, losses: 1 },
    happens: [
      ...LOST,
      'declare',
      'declare: no row',
      'the declare of A lands',
      'mark_stuck',
      'the mark_stuck of A lands',
    ],
    states: 36_575,
    isDeep: true,
  },
  {
    name: 'with a third grant, a crash, a failure and a refusal',
    phases: ['local', 'keyed', 'finish'],
    faults: { grants: 3, crashes: 1, failures: 1, refusals: 1 },
    happens: [...RESERVED_RUN_AND_REAPED, ...FROZEN, 'calls the provider under key 1'],
    states: 57_729,
    isDeep: true,
  },
  {
    name: 'with a crash, a failure and a person who steps in',
    phases: ['local', 'keyed', 'finish'],
    faults: { crashes: 1, failures: 1, interventions: 1 },
    happens: ['takes the lease away', 'resumes the key'],
    states: 16_302,
  },
  {
    name: 'with a crash, a failure and a person who steps in, where the call may not be repeated',
    phases: ['at_most_once', 'finish'],
    faults: { crashes: 1, failures: 1, interventions: 1 },
    happens: ['resumes the key: the call was made', 'resumes the key: the call was not made'],
    states: 11_388,
  },
  {
    name: 'with two losses',
    phases: ['local', 'finish'],
    faults: { losses: 2 },
    happens: [...LOST, 'the raise of A lands', 'cannot reach the database, and gives up'],
    states: 21_860,
    isDeep: true,
  },
  {
    name: 'with a loss, and the key reserved again after it was reaped',
    phases: ['local', 'finish'],
    faults: { losses: 1, lives: 2 },
    happens: [...RESERVED_RUN_AND_REAPED, 'replays the response', 'the insert of B lands'],
    states: 22_387,
    isDeep: true,
  },
  {
    name: "with a crash, a loss and a failure, and commits: 'fewest'",
    phases: ['local', 'local', 'keyed', 'local', 'finish'],
    inLegs: true,
    faults: { crashes: 1, losses: 1, failures: 1 },
    happens: [...LOST, ...FROZEN, 'updates the row to 2', 'updates the row to 5'],
    states: 66_109,
    isDeep: true,
  },
  {
    name: "with a crash and a failure, commits: 'fewest', and a call that may not be repeated",
    phases: ['at_most_once', 'local', 'finish'],
    inLegs: true,
    faults: { crashes: 1, failures: 1 },
    happens: ['declare', 'mark_stuck', 'updates the row to 3'],
    states: 3_566,
  },
  {
    name: "with a crash and a loss, commits: 'fewest', and a call that the leg before it declares",
    phases: ['local', 'at_most_once', 'finish'],
    inLegs: true,
    faults: { crashes: 1, losses: 1 },
    happens: [...LOST, 'declare', 'mark_stuck', 'finds that it is too late to call'],
    states: 34_151,
    isDeep: true,
  },
]

for (const { name, phases, inLegs, faults, happens, states } of CASES.filter(
  ({ isDeep }) => IS_DEEP || !isDeep,
)) {
  test(`every guarantee holds, and an end can be reached from every state, ${name}`, () => {
    const rules = inLegs === true ? PROTOCOL_IN_LEGS : PROTOCOL
    const model = { phases, rules, bound: { ...WITHOUT_FAULTS, ...faults } }
    const { refutation, deadEnd, ...explored } = explore(model, ALL_INVARIANTS)
    expect(refutation === null ? null : printTrace(refutation, phases)).toBeNull()
    expect(deadEnd === null ? null : printTrace(deadEnd, phases)).toBeNull()
    expect(happens.filter((what) => !explored.happened.has(what))).toEqual([])
    expect(explored.states).toBe(states)
  })
}

onlyDeep(() => {
  test('states that differ only in the names of actors and count as one have the same future', () => {
    const bound = { ...WITHOUT_FAULTS, losses: 1 }
    const model = { phases: ['local', 'finish'], rules: PROTOCOL, bound } as const
    const first = initialState(bound)
    const states = [first]
    const known = new Set([JSON.stringify(first)])
    const futures = new Map<string, string>()
    for (const state of states) {
      const next = stepsFrom(model, state).map((step) => step.next)
      const future = [...new Set(next.map(fingerprint))].toSorted().join('\n')
      const shared = fingerprint(state)
      expect(futures.get(shared) ?? future).toBe(future)
      futures.set(shared, future)
      for (const each of next) {
        const exact = JSON.stringify(each)
        if (known.has(exact)) continue
        known.add(exact)
        states.push(each)
      }
    }
    expect(futures.size).toBe(explore(model, []).states)
    expect(states.length).toBeGreaterThan(futures.size)
  })
})
