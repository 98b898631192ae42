import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatReplay, parseReplay, type Replay } from '../../packages/crash-kit/src/plan/replay-line.js'
import { KitError } from '../../packages/crash-kit/src/kit-error.js'
import { assertProperty } from '../property/support/assert-property.js'

// Names that core accepts, including those that the line itself uses.
const name = fc.oneof(
  fc.stringMatching(/^[A-Za-z][A-Za-z0-9_.-]{0,62}$/),
  fc.constantFrom('recovery', 'races', 'process', 'seed', 'no', 'a.b-c_1', 'crash', 'providerTimeout.after'),
)
const at = fc
  .tuple(name, name, fc.integer({ min: 1 }), fc.constantFrom('before', 'after'))
  .map(([phase, step, occurrence, when]) => `${phase}/${step}#${occurrence}:${when}`)
const planned = fc.record({ attempt: fc.nat(20), fault: name, at })
const path = fc.array(fc.nat(), { maxLength: 8 }).map((steps) => steps.join(':'))
const replay: fc.Arbitrary<Replay> = fc.oneof(
  fc.record(
    {
      kind: fc.constant('plan' as const),
      plan: fc.array(planned, { maxLength: 4 }),
      mode: fc.constant('process' as const),
    },
    { requiredKeys: ['kind', 'plan'] },
  ),
  fc.record(
    {
      kind: fc.constant('races' as const),
      actors: fc.array(name, { minLength: 1, maxLength: 5 }),
      seed: fc.integer(),
      path,
      runs: fc.integer({ min: 1 }),
    },
    { requiredKeys: ['kind', 'actors', 'seed', 'path'] },
  ),
)

test('parsing what was formatted returns the same replay', async () => {
  await assertProperty(
    fc.property(replay, (given) => {
      expect(parseReplay(formatReplay(given))).toEqual(given)
    }),
  )
})

test('a replay line needs no escapes between single quotes', async () => {
  await assertProperty(
    fc.property(replay, (given) => {
      expect(formatReplay(given)).toMatch(/^[A-Za-z0-9_.,:;#@/= -]+$/)
    }),
  )
})

test('any text is parsed or refused, and what is parsed can be formatted again', async () => {
  const text = fc.oneof(
    fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
    fc
      .array(
        fc.constantFrom(
          'races ',
          'client',
          ',',
          'zombie',
          ' seed=',
          ' path=',
          ' runs=',
          '1',
          '-1',
          ':',
          'crash',
          '@',
          'a/b#1:after',
          '; ',
          'recovery 1: ',
          'no faults',
          ' ',
          '#',
          '/',
        ),
      )
      .map((parts) => parts.join('')),
  )
  await assertProperty(
    fc.property(text, (given) => {
      let read: Replay
      try {
        read = parseReplay(given)
      } catch (error) {
        if (error instanceof KitError && error.code === 'PAWL_KIT_INVALID_REPLAY') return
        throw error
      }
      expect(parseReplay(formatReplay(read))).toEqual(read)
    }),
  )
})

test('replay lines are short and readable', () => {
  const crash = { attempt: 0, fault: 'crash', at: 'charge_created/call#1:after' }
  const lost = { attempt: 1, fault: 'lostCommitAck', at: 'finished/commit#1:before' }
  const races = {
    kind: 'races',
    actors: ['client', 'duplicate', 'zombie'],
    seed: 123,
    path: '4:1:0',
  } as const
  expect(formatReplay({ kind: 'plan', plan: [crash] })).toBe('crash@charge_created/call#1:after')
  expect(formatReplay({ kind: 'plan', plan: [crash, lost] })).toBe(
    'crash@charge_created/call#1:after; recovery 1: lostCommitAck@finished/commit#1:before',
  )
  expect(formatReplay({ kind: 'plan', plan: [] })).toBe('no faults')
  expect(formatReplay({ kind: 'plan', plan: [crash], mode: 'process' })).toBe(
    'process: crash@charge_created/call#1:after',
  )
  expect(formatReplay(races)).toBe('races client,duplicate,zombie seed=123 path=4:1:0')
  expect(formatReplay({ ...races, path: '', runs: 50 })).toBe(
    'races client,duplicate,zombie seed=123 runs=50',
  )
})

test('a person may add spaces, and choose the order of options', () => {
  expect(parseReplay(' crash@a/call#1:after;recovery 1: crash@a/call#1:before\n')).toEqual(
    parseReplay('crash@a/call#1:after; recovery 1: crash@a/call#1:before'),
  )
  expect(parseReplay('races client,zombie path=1:2 runs=3 seed=-4')).toEqual({
    kind: 'races',
    actors: ['client', 'zombie'],
    seed: -4,
    path: '1:2',
    runs: 3,
  })
})

test.each([
  ['', 'it is empty'],
  ['crash', `'crash' is not fault@position, or 'recovery N: fault@position'`],
  ['crash@ride_created', `'ride_created' is not a position, which is phase/step#occurrence:before or :after`],
  ['crash@a/b#1:after;', `'' is not fault@position`],
  ['recovery 0: crash@a/b#1:after', `'recovery 0: crash@a/b#1:after' is not fault@position`],
  ['races', `after 'races' it takes the actors, joined by commas, and then options`],
  ['races client, zombie seed=1', `after 'races' it takes the actors`],
  ['races client', 'seed= is missing'],
  ['races client seed=1.5', `seed '1.5' is not a whole number`],
  ['races client seed=1 seed=2', 'seed= appears twice'],
  ['races client seed=1 path=1:x', `path '1:x' is not numbers joined by colons`],
  ['races client seed=1 runs=0', `runs '0' is less than 1`],
  ['races client seed=1 speed=2', `'speed=2' is not one of seed=, path= and runs=`],
  ['crash@\u001b[31m', String.raw`'\u001b[31m' is not a position`],
])('%j is refused: %s', (text, why) => {
  expect(() => parseReplay(text)).toThrow(`This cannot be replayed: ${why}`)
})

test('the error for a wrong line has examples, which can be parsed', () => {
  let message = ''
  try {
    parseReplay('crash in charge_created')
  } catch (error) {
    ;({ message } = error as Error)
  }
  expect(message).toMatchInlineSnapshot(`
    "This cannot be replayed: 'crash in charge_created' is not fault@position, or 'recovery N: fault@position'. Copy the line that a finding ends with, such as
      'crash@charge_created/call#1:after'
      'crash@charge_created/call#1:after; recovery 1: lostCommitAck@finished/commit#1:before'
      'process: crash@charge_created/call#1:after'
      'races client,duplicate,zombie seed=123 path=4:1:0'"
  `)
  for (const [, example = ''] of message.matchAll(/^ {2}'(.*)'$/gm)) {
    expect(formatReplay(parseReplay(example))).toBe(example)
  }
})
