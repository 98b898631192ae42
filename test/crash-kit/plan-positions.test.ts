import type { Position } from '@pawl/core/internal'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parsePosition, positionNamer } from '../../packages/crash-kit/src/plan/named-position.js'
import { assertProperty } from '../property/support/assert-property.js'

const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_.-]{0,20}$/)
const position: fc.Arbitrary<Position> = fc.record({
  phase: fc.oneof(name, fc.constantFrom('ride_created', 'reserve')),
  step: fc.oneof(name, fc.constantFrom('call', 'commit')),
  when: fc.constantFrom('before', 'after'),
})

test('equal positions are numbered, each kind separately', () => {
  const named = positionNamer()
  const query = { phase: 'ride_created', step: 'query' } as const
  expect(named({ ...query, when: 'before' })).toEqual({
    phase: 'ride_created',
    step: 'query',
    occurrence: 1,
    when: 'before',
    text: 'ride_created/query#1:before',
  })
  expect(named({ ...query, when: 'after' }).text).toBe('ride_created/query#1:after')
  expect(named({ ...query, when: 'before' }).text).toBe('ride_created/query#2:before')
  expect(named({ ...query, phase: 'finished', when: 'before' }).text).toBe('finished/query#1:before')
  expect(named({ ...query, step: 'begin', when: 'before' }).text).toBe('ride_created/begin#1:before')
  expect(positionNamer()({ ...query, when: 'before' }).occurrence).toBe(1)
})

test('the names in a run are distinct, and parsing one returns its position', async () => {
  await assertProperty(
    fc.property(fc.array(position, { maxLength: 30 }), (positions) => {
      const named = positions.map(positionNamer())
      expect(new Set(named.map(({ text }) => text)).size).toBe(named.length)
      for (const each of named) expect(parsePosition(each.text)).toEqual(each)
    }),
  )
})

test.each([
  '',
  'ride_created',
  'ride_created/commit',
  'ride_created/commit#1',
  'ride_created/commit#0:after',
  'ride_created/commit#01:after',
  'ride_created/commit#1:during',
  'ride_created/commit#9999999999999999:after',
  'ride_created//commit#1:after',
  ' ride_created/commit#1:after',
  'ride_created/commit#1:after\n',
  '1st/commit#1:after',
  'ride created/commit#1:after',
])('%j is not a position', (text) => {
  expect(() => parsePosition(text)).toThrow(
    expect.objectContaining({
      code: 'PAWL_KIT_INVALID_REPLAY',
      message: expect.stringContaining("such as 'charge_created/call#1:after'"),
    }),
  )
})
