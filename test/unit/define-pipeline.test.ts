import { pawl, PawlError } from '@pawl/core'
import { describe, expect, test } from 'vitest'

const DAY_MS = 24 * 3_600_000

// What a caller without types may try, although the types refuse it.
interface Builder {
  local(...args: unknown[]): Builder
  foreign(...args: unknown[]): Builder
  finish(...args: unknown[]): unknown
}
const pipeline = pawl<never>().pipeline as unknown as (options?: unknown) => Builder

const start = (more: object = {}) => pipeline({ name: 'ride', version: 2, ...more })
const call = () => ({ id: '1' })
const run = () => undefined

function refusal(define: () => unknown): { code: string; message: string } {
  try {
    define()
  } catch (error) {
    if (error instanceof PawlError) return { code: error.code, message: error.message }
    throw error
  }
  throw new Error('it was accepted')
}

const NAMES = "it takes a letter, then letters, digits, '_', '.' or '-', at most 63 in all"

describe('a pipeline is refused, by its name, for', () => {
  test.each<[string, () => unknown, string]>([
    ['no options', () => pipeline(), 'the options are undefined; they have to be an object'],
    [
      'options that are no object',
      () => pipeline('ride'),
      "the options are 'ride'; they have to be an object",
    ],
    ['no name', () => pipeline({ version: 1 }), 'name is undefined'],
    ['an empty name', () => pipeline({ name: '', version: 1 }), `name is ''; ${NAMES}`],
    ['a name with a space', () => pipeline({ name: 'a ride', version: 1 }), `name is 'a ride'; ${NAMES}`],
    ['a name that is too long', () => pipeline({ name: 'x'.repeat(64), version: 1 }), NAMES],
    ['a name that is no string', () => pipeline({ name: 7, version: 1 }), `name is 7; ${NAMES}`],
    ['no version', () => pipeline({ name: 'ride' }), 'version is null; it takes a whole number of 1 or more'],
    ['version 0', () => start({ version: 0 }), 'version is 0'],
    ['half a version', () => start({ version: 1.5 }), 'version is 1.5'],
    ['a version in quotes', () => start({ version: '1' }), "version is '1'"],
    [
      'an unknown option',
      () => start({ lease: 1 }),
      "unknown option 'lease'. The options are name, version, input",
    ],
    [
      'an input that is no schema',
      () => start({ input: {} }),
      'input is an object; it takes a Standard Schema',
    ],
    ['an input that is null', () => start({ input: null }), 'input is null; it takes a Standard Schema'],
    ['a fingerprint that is no function', () => start({ fingerprint: 'id' }), "fingerprint is 'id'"],
    ['upgradesFrom that is no list', () => start({ upgradesFrom: {} }), 'upgradesFrom is an object'],
    ['an upgrade from itself', () => start({ upgradesFrom: [{ version: 2 }] }), 'a version before 2'],
    ['an upgrade from nowhere', () => start({ upgradesFrom: [{}] }), 'upgradesFrom.version is null'],
    ['an upgrade that is no object', () => start({ upgradesFrom: [1] }), 'upgradesFrom: the options are 1'],
    [
      'an unknown option of an upgrade',
      () => start({ upgradesFrom: [{ version: 1, from: 1 }] }),
      "upgradesFrom: unknown option 'from'. The options are version, points, state",
    ],
    [
      'an upgrade whose state is no function',
      () => start({ upgradesFrom: [{ version: 1, state: {} }] }),
      'upgradesFrom.state is an object; it takes a function',
    ],
    [
      'an upgrade whose points are no object',
      () => start({ upgradesFrom: [{ version: 1, points: 7 }] }),
      'upgradesFrom.points is 7',
    ],
    [
      'an upgrade to a point that is not there',
      () => start({ upgradesFrom: [{ version: 1, points: { old: 'gone' } }] }).finish(run),
      "upgradesFrom version 1 maps 'old' to 'gone', which is not a recovery point of version 2",
    ],
  ])('%s', (_, define, message) => {
    const refused = refusal(define)
    expect(refused.code).toBe('PAWL_INVALID_PIPELINE')
    expect(refused.message).toContain(message)
    expect(refused.message).toMatch(/^pipeline '/)
  })

  test.each<[string, unknown, string]>([
    ['isolation', 'dirty read', "one of 'read committed', 'repeatable read', 'serializable'"],
    ['transactionRetries', -1, 'a whole number of 0 or more'],
    ['leaseMs', 99, 'a whole number of 100 or more'],
    ['maxAttempts', 0, 'a whole number of 1 or more'],
    ['statementTimeoutMs', 0, 'a whole number of 1 or more'],
    ['lockTimeoutMs', '1s', 'a whole number of 1 or more'],
    ['idleTimeoutMs', Number.NaN, 'a whole number of 1 or more'],
    ['callTimeoutMs', Number.POSITIVE_INFINITY, 'a whole number of 1 or more'],
    ['retentionMs', 0, 'a whole number of 1 or more'],
    ['maxAgeMs', null, 'a whole number of 1 or more'],
    ['wipe', 'everything', "one of 'nothing', 'input', 'all'"],
    ['retentionMs', Number.MAX_SAFE_INTEGER, 'at most 3162240000000'],
    ['maxAgeMs', Number.MAX_SAFE_INTEGER, 'at most 3162240000000'],
  ])('its setting %s of %s', (name, value, takes) => {
    const refused = refusal(() => start({ [name]: value }))
    expect(refused.code).toBe('PAWL_INVALID_PIPELINE')
    expect(refused.message).toContain(`pipeline 'ride': ${name} is `)
    expect(refused.message).toContain(takes)
  })

  // A timer of Node and a setting of PostgreSQL take at most 2^31 - 1 ms: beyond that, a timer fires at once, and the setting
  // fails late. A day leaves room for what is added.
  test.each(['leaseMs', 'statementTimeoutMs', 'lockTimeoutMs', 'idleTimeoutMs', 'callTimeoutMs'])(
    'its setting %s, if no timer can wait that long',
    (name) => {
      for (const ms of [DAY_MS + 1, 2_147_483_646, 2 ** 31])
        expect(refusal(() => start({ [name]: ms })).message).toContain(
          `${name} is ${ms}; it takes at most ${DAY_MS}`,
        )
      start({ [name]: DAY_MS })
    },
  )

  test('a version that its column cannot hold', () => {
    expect(refusal(() => start({ version: 2 ** 31 })).message).toContain('version is 2147483648; it takes')
    start({ version: 2 ** 31 - 1 })
  })
})

describe('a phase is refused, by pipeline and name, for', () => {
  test.each<[string, () => unknown, string]>([
    ['a name that is no string', () => start().local(undefined, run), 'the phase name is undefined'],
    ['a name that is a symbol', () => start().local(Symbol('a'), run), 'the phase name is Symbol(a)'],
    ['a name that starts with a digit', () => start().local('1st', run), `the phase name is '1st'; ${NAMES}`],
    ['the name started', () => start().local('started', run), "phase 'started': 'started' is reserved"],
    ['the name finished', () => start().foreign('finished', { call }), "'finished' is reserved"],
    [
      'a name that is taken',
      () => start().local('a', run).foreign('a', { call }),
      "phase 'a': there is already a phase 'a'; phase names are unique",
    ],
    [
      'no function',
      () => start().local('a'),
      "phase 'a': the second argument is undefined; it takes a function",
    ],
    ['an unknown option', () => start().local('a', run, { retry: 1 }), "phase 'a': unknown option 'retry'"],
    ['options that are null', () => start().local('a', run, null), "phase 'a': the options are null"],
    ['a when that is no function', () => start().local('a', run, { when: true }), "phase 'a': when is true"],
    ['a setting of its own', () => start().local('a', run, { leaseMs: 1 }), "phase 'a': leaseMs is 1"],
    [
      "a setting that is the pipeline's",
      () => start().local('a', run, { retentionMs: 1 }),
      "phase 'a': unknown option 'retentionMs'",
    ],
    ['no options where it is foreign', () => start().foreign('a'), "phase 'a': the options are undefined"],
    ['no call', () => start().foreign('a', {}), "phase 'a': call is undefined; it takes a function"],
    [
      'two calls',
      () => start().foreign('a', { call: [call, call] }),
      "phase 'a': call is an array; it takes a function",
    ],
    ['a second call', () => start().foreign('a', { call, call2: call }), "phase 'a': unknown option 'call2'"],
    [
      'a settle that is no function',
      () => start().foreign('a', { call, settle: 1 }),
      "phase 'a': settle is 1",
    ],
    [
      'a reference that is no function',
      () => start().foreign('a', { call, reference: 'id' }),
      "phase 'a': reference is 'id'",
    ],
    [
      'an onError that is no function',
      () => start().foreign('a', { call, onError: {} }),
      "phase 'a': onError is an object",
    ],
    [
      'an isAnswer that is no function',
      () => start().foreign('a', { call, onError: () => {}, isAnswer: true }),
      "phase 'a': isAnswer is true",
    ],
    [
      'a whenUnknown that is neither',
      () => start().foreign('a', { call, guarantee: 'at_most_once', whenUnknown: 'go on' }),
      "phase 'a': whenUnknown is 'go on'; it takes 'stuck' or a function",
    ],
    [
      'a whenUnknown of a call that is repeated',
      () => start().foreign('a', { call, whenUnknown: () => ({}) }),
      "phase 'a': whenUnknown cannot be combined with guarantee 'keyed'",
    ],
    [
      'an isAnswer that nobody asks',
      () => start().foreign('a', { call, isAnswer: () => true }),
      "phase 'a': isAnswer without onError has no effect",
    ],
    [
      'a reconcile that is no function',
      () => start().foreign('a', { call, guarantee: 'queryable', reconcile: 1 }),
      "phase 'a': reconcile is 1",
    ],
    ['an effect name', () => start().foreign('a', { call, effectName: '' }), "phase 'a': effectName is ''"],
    [
      'an effect name that is taken',
      () => start().foreign('a', { call }).foreign('b', { call, effectName: 'a' }),
      "phase 'b': the effect name 'a' is used by an earlier phase",
    ],
    [
      'an unknown guarantee',
      () => start().foreign('a', { call, guarantee: 'maybe' }),
      "phase 'a': guarantee is 'maybe'; it takes one of 'keyed', 'queryable', 'at_most_once'",
    ],
    ['windowMs 0', () => start().foreign('a', { call, windowMs: 0 }), "phase 'a': windowMs is 0"],
    [
      'a negative quietForMs',
      () => start().foreign('a', { call, guarantee: 'queryable', reconcile: call, quietForMs: -1 }),
      "phase 'a': quietForMs is -1",
    ],
    [
      'queryable without reconcile',
      () => start().foreign('a', { call, guarantee: 'queryable' }),
      "phase 'a': guarantee 'queryable' needs a reconcile function, which asks the provider",
    ],
    [
      'windowMs with queryable',
      () => start().foreign('a', { call, guarantee: 'queryable', reconcile: call, windowMs: 1 }),
      "phase 'a': windowMs cannot be combined with guarantee 'queryable'",
    ],
    [
      'windowMs with at_most_once',
      () => start().foreign('a', { call, guarantee: 'at_most_once', windowMs: 1 }),
      "phase 'a': windowMs cannot be combined with guarantee 'at_most_once'",
    ],
    [
      'quietForMs with keyed',
      () => start().foreign('a', { call, quietForMs: 1 }),
      "phase 'a': quietForMs cannot be combined with guarantee 'keyed'",
    ],
    [
      'reconcile with at_most_once',
      () => start().foreign('a', { call, guarantee: 'at_most_once', reconcile: call }),
      "phase 'a': reconcile cannot be combined with guarantee 'at_most_once'",
    ],
    [
      'a finish without function',
      () => start().finish(),
      "phase 'finished': the first argument is undefined",
    ],
    [
      'a finish with a when, which always runs',
      () => start().finish(run, { when: () => false }),
      "phase 'finished': unknown option 'when'",
    ],
  ])('%s', (_, define, message) => {
    const refused = refusal(define)
    expect(refused.code).toBe('PAWL_INVALID_PIPELINE')
    expect(refused.message).toContain(message)
    expect(refused.message).toMatch(/^pipeline 'ride'/)
  })
})

test('a builder can be shared, because each step returns a new one', () => {
  const prefix = start().local('a', run)
  prefix.local('b', run)
  prefix.local('b', run)
})
