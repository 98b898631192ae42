import { absent, type Guarantee, pawl, respond } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import { definitionOf } from '../../packages/core/src/pipeline/pipeline.js'
import { nextStep } from '../../packages/core/src/run/next-step.js'
import type { Intent } from '../../packages/core/src/storage/keys/key-row.js'

const { pipeline } = pawl<never>()
const call = () => ({ id: 'ch' })

const NOW = 1_000_000_000
const WINDOW_MS = 1_000
const QUIET_MS = 500
const SERVER = 'here'

type Kind = Guarantee | 'keyed_and_queryable' | 'expendable'
const without = () => ({})
const OPTIONS = {
  keyed: { call, windowMs: WINDOW_MS },
  keyed_and_queryable: { call, windowMs: WINDOW_MS, reconcile: () => absent() },
  queryable: { call, guarantee: 'queryable', quietForMs: QUIET_MS, reconcile: () => absent() },
  at_most_once: { call, guarantee: 'at_most_once', whenUnknown: 'stuck' },
  expendable: { call, guarantee: 'at_most_once', whenUnknown: without },
} as const

function definitionWith(kind: Kind) {
  return pipeline({ name: 'ride', version: 1 })
    .local('created', () => {})
    .foreign('charged', OPTIONS[kind])
    .local('noted', () => {})
    .finish(() => respond(200))[definitionOf]
}

/** A row at the recovery point before the charge. */
function rowBeforeCharge(intent: Intent | null, committedAgoMs: number) {
  const entry = {
    point: 'created',
    atMs: NOW - committedAgoMs,
    fence: 1,
    skipped: false,
    outcomeUnknown: false,
  }
  return { recoveryPoint: 'created', intent, trail: [entry], createdMs: NOW - 9_000_000, server: SERVER }
}

const called: Intent = { kind: 'called', phase: 'charged', result: { id: 'ch' } }
const calling = (deadlineMs: number, server: string | undefined = SERVER): Intent => ({
  kind: 'calling',
  phase: 'charged',
  deadlineMs,
  ...(server !== undefined && { server }),
})
const declaredElsewhere: Intent = { kind: 'calling', phase: 'charged', deadlineMs: NOW - 9_000_000 }
const notMade = (agoMs: number): Intent => ({ kind: 'not_made', phase: 'charged', atMs: NOW - agoMs })
const ofAnotherPhase: Intent = { kind: 'calling', phase: 'other', deadlineMs: NOW }

describe('by recovery point', () => {
  const definition = definitionWith('keyed')
  const at = (recoveryPoint: string) => {
    const step = nextStep(
      definition,
      { recoveryPoint, intent: null, trail: [], createdMs: NOW, server: SERVER },
      NOW,
    )
    return [step.do, step.phase.name]
  }
  test('started leads to the first phase', () => expect(at('started')).toEqual(['run_local', 'created']))
  test('a phase leads to the one after it', () => {
    expect(at('created')).toEqual(['call', 'charged'])
    expect(at('charged')).toEqual(['run_local', 'noted'])
  })
  test('the last phase leads to the finish', () => expect(at('noted')).toEqual(['finish', 'finished']))
  test('a pipeline without phases starts with its finish', () => {
    const empty = pipeline({ name: 'e', version: 1 }).finish(() => respond(200))[definitionOf]
    const row = { recoveryPoint: 'started', intent: null, trail: [], createdMs: NOW, server: SERVER }
    expect(nextStep(empty, row, NOW).do).toBe('finish')
  })
  test.each(['gone', 'finished', 'constructor', ''])('%j is not a point to go on from', (point) => {
    expect(() => at(point)).toThrow(`'${point}' is not a recovery point of pipeline 'ride'`)
  })
})

const CALL = { do: 'call', declareFirst: false }
const DECLARE_AND_CALL = { do: 'call', declareFirst: true }
const SETTLE = { do: 'settle', result: { id: 'ch' } }
const RECONCILE = { do: 'reconcile', absentCountsInMs: 0 }
const reconcileIn = (absentCountsInMs: number | null) => ({ do: 'reconcile', absentCountsInMs })
const STOP = { do: 'stop_at_call', call: ofAnotherPhase }
const markStuck = (reason: string) => ({ do: 'mark_stuck', reason })

const cases: [Kind, string, Intent | null, number, object][] = [
  // guarantee, what is known of the call, the same as an intent, ms since the previous commit, what follows
  ['keyed', 'nothing', null, 0, CALL],
  ['keyed', 'nothing, at the end of the window', null, WINDOW_MS, CALL],
  ['keyed', 'nothing, past the window', null, WINDOW_MS + 1, markStuck('window_passed')],
  ['keyed', 'its result', called, 0, SETTLE],
  ['keyed', 'its result, past the window', called, WINDOW_MS + 1, SETTLE],
  ['keyed', 'that it may have been made', calling(NOW), 0, CALL],
  [
    'keyed',
    'that it may have been made, past the window',
    calling(NOW),
    WINDOW_MS + 1,
    markStuck('window_passed'),
  ],
  ['keyed', 'only something of another phase', ofAnotherPhase, 0, STOP],

  ['keyed', 'that it was not made, past the first window', notMade(WINDOW_MS), 9_000_000, CALL],
  [
    'keyed',
    'that it was not made, past its own',
    notMade(WINDOW_MS + 1),
    9_000_000,
    markStuck('window_passed'),
  ],

  ['keyed_and_queryable', 'nothing, at the end of the window', null, WINDOW_MS, CALL],
  ['keyed_and_queryable', 'nothing, past the window', null, WINDOW_MS + 1, RECONCILE],
  ['keyed_and_queryable', 'its result, past the window', called, WINDOW_MS + 1, SETTLE],

  ['queryable', 'nothing', null, 0, DECLARE_AND_CALL],
  ['queryable', 'nothing, however late', null, 9_000_000, DECLARE_AND_CALL],
  ['queryable', 'its result', called, 0, SETTLE],
  ['queryable', 'that its deadline is to come', calling(NOW + 700), 0, reconcileIn(700 + QUIET_MS)],
  ['queryable', 'that its deadline is now', calling(NOW), 0, reconcileIn(QUIET_MS)],
  ['queryable', 'that 1 ms of quiet is left', calling(NOW - QUIET_MS + 1), 0, reconcileIn(1)],
  ['queryable', 'that the quiet time is just over', calling(NOW - QUIET_MS), 0, RECONCILE],
  ['queryable', 'that the quiet time is long over', calling(NOW - 9_000_000), 0, RECONCILE],
  [
    'queryable',
    "that it was declared by another server's clock",
    calling(NOW - 9_000_000, 'elsewhere'),
    0,
    reconcileIn(null),
  ],
  ['queryable', 'that it was declared by nobody knows whose clock', declaredElsewhere, 0, reconcileIn(null)],
  ['queryable', 'only something of another phase', ofAnotherPhase, 0, STOP],

  ['queryable', 'that it was not made', notMade(0), 0, DECLARE_AND_CALL],

  ['at_most_once', 'nothing', null, 0, DECLARE_AND_CALL],
  ['at_most_once', 'that it was not made', notMade(0), 0, DECLARE_AND_CALL],
  ['at_most_once', 'nothing, however late', null, 9_000_000, DECLARE_AND_CALL],
  ['at_most_once', 'its result', called, 0, SETTLE],
  ['at_most_once', 'that it may have been made', calling(NOW + 700), 0, markStuck('unknown_outcome')],
  [
    'at_most_once',
    'that it may have been made long ago',
    calling(NOW - 9_000_000),
    0,
    markStuck('unknown_outcome'),
  ],
  ['at_most_once', 'only something of another phase', ofAnotherPhase, 0, STOP],

  ['expendable', 'nothing', null, 0, DECLARE_AND_CALL],
  ['expendable', 'its result', called, 0, SETTLE],
  ['expendable', 'that it may have been made', calling(NOW + 700), 0, { do: 'go_on', run: without }],
]

test.each(cases)('%s, of the call is known: %s', (kind, _, intent, committedAgoMs, step) => {
  const definition = definitionWith(kind)
  const next = nextStep(definition, rowBeforeCharge(intent, committedAgoMs), NOW)
  expect(next).toEqual({ ...step, phase: definition.phases[1] })
})

test('without an earlier commit, the window counts from the reservation', () => {
  const definition = pipeline({ name: 'ride', version: 1 })
    .foreign('charged', OPTIONS.keyed)
    .finish(() => respond(200))[definitionOf]
  const row = { recoveryPoint: 'started', intent: null, trail: [], createdMs: NOW, server: SERVER }
  expect(nextStep(definition, row, NOW + WINDOW_MS).do).toBe('call')
  expect(nextStep(definition, row, NOW + WINDOW_MS + 1).do).toBe('mark_stuck')
})

describe('a call of a later phase than the next one', () => {
  const definition = definitionWith('at_most_once')
  const next = (recoveryPoint: string, intent: Intent) => {
    const { do: what, phase } = nextStep(
      definition,
      { recoveryPoint, intent, trail: [], createdMs: NOW, server: SERVER },
      NOW,
    )
    return [what, phase.name]
  }
  const said: Intent = { kind: 'called', phase: 'charged', result: { id: 'ch' }, said: true }

  test.each([calling(NOW), called])('is not passed over: $kind', (intent) =>
    expect(next('started', intent)).toEqual(['stop_at_call', 'created']),
  )
  test.each([said, notMade(0)])('is carried over local phases once a person has decided: $kind', (intent) =>
    expect(next('started', intent)).toEqual(['run_local', 'created']),
  )
  test.each([
    ['charged', 'noted'],
    ['noted', 'finished'],
  ])(
    'is never passed over if it belongs to an earlier phase, whoever decided about it: at %s',
    (point, phase) => {
      for (const intent of [said, notMade(0), calling(NOW), called]) {
        expect(next(point, intent)).toEqual(['stop_at_call', phase])
      }
    },
  )
  test('is not carried over another call', () => {
    const two = pipeline({ name: 'two', version: 1 })
      .foreign('asked', { call })
      .foreign('charged', OPTIONS.at_most_once)
      .finish(() => respond(200))[definitionOf]
    const row = { recoveryPoint: 'started', intent: said, trail: [], createdMs: NOW, server: SERVER }
    expect(nextStep(two, row, NOW)).toMatchObject({ do: 'stop_at_call', phase: { name: 'asked' } })
  })
})
