import { expect, test } from 'vitest'
import { explore, stepsFrom } from './explore.js'
import { fingerprint } from './fingerprint.js'
import { ALL_INVARIANTS } from './invariants.js'
import { PROTOCOL } from './rules.js'
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

/** Where the model is blind, nothing can be found: each of these is met somewhere. */
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
  readonly faults: Partial<Bound>
  readonly happens: readonly string[]
  /** To be noticed: who changes the model sees that it has another shape, and `docs/state-machine.md` says how many. */
  readonly states: number
}

// Each in seconds: to allow one thing more of a kind makes several times as many states.
const CASES: readonly Case[] = [
  {
    name: 'with a crash, a loss and a refusal',
    phases: ['local', 'keyed', 'finish'],
    faults: { crashes: 1, losses: 1, refusals: 1 },
    happens: [...LOST, ...FROZEN, 'crashes', 'the call of A is executed', 'has its call refused'],
    states: 60_366,
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
  },
  {
    name: 'with a third grant, a crash, a failure and a refusal',
    phases: ['local', 'keyed', 'finish'],
    faults: { grants: 3, crashes: 1, failures: 1, refusals: 1 },
    happens: [...RESERVED_RUN_AND_REAPED, ...FROZEN, 'calls the provider under key 1'],
    states: 57_729,
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
  },
  {
    name: 'with a loss, and the key reserved anew after it was reaped',
    phases: ['local', 'finish'],
    faults: { losses: 1, lives: 2 },
    happens: [...RESERVED_RUN_AND_REAPED, 'replays the response', 'the insert of B lands'],
    states: 22_387,
  },
]

for (const { name, phases, faults, happens, states } of CASES) {
  test(`every guarantee holds, and every way can end, ${name}`, () => {
    const model = { phases, rules: PROTOCOL, bound: { ...WITHOUT_FAULTS, ...faults } }
    const { refutation, deadEnd, ...explored } = explore(model, ALL_INVARIANTS)
    expect(refutation === null ? null : printTrace(refutation, phases)).toBeNull()
    expect(deadEnd === null ? null : printTrace(deadEnd, phases)).toBeNull()
    expect(happens.filter((what) => !explored.happened.has(what))).toEqual([])
    expect(explored.states).toBe(states)
  })
}

test('states that are taken for one, by who is called what, have the same future', () => {
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
