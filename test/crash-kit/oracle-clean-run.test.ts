import { describe, expect, test } from 'vitest'
import type { History } from '../../packages/crash-kit/src/history.js'
import { cleanRunOf, compareWithClean } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import { HistoryBuilder } from './history-builder.js'
import { aftermath, begun, cleanRide, crashedRide, ended, Ride, RIDES, ridesWith } from './ride-histories.js'
import { insert } from './row-changes.js'
import { writingRun } from './writing-run.js'

const PHASE = 'charge_created'
const clean = cleanRunOf(cleanRide(1).build(), cleanRide(2).build(), [])

/** Returns how the run differs from the clean one. */
const differences = (history: History, of = clean, mayBeStuck = false) =>
  compareWithClean(of, history, { mayBeStuck }).map(({ detail }) => detail)

describe('a run that ended as the clean one did', () => {
  test('differs only in ids and times', () => {
    expect(differences(cleanRide(3).build())).toEqual([])
    expect(differences(crashedRide(4).build())).toEqual([])
  })

  test('may have been reaped afterwards, or before', () => {
    expect(differences(crashedRide(4).expire().reap().build())).toEqual([])
    const story = cleanRide(3).expire().reap()
    const ride = new Ride(story)
    story.reserve('retry')
    const { row } = ride
    story.advance('retry', 'ride_created', insert('rides', row))
    story.call('retry', PHASE, { execution: 2 }).request('retry', PHASE, { executed: false, body: ride.body })
    ended(story, ride, row, 'retry')
    expect(differences(aftermath(story, ride).build())).toEqual([])
  })
})

const thirteenRows = (n: number) => Array.from({ length: 13 }, () => ({ n }))

describe('a difference is reported', () => {
  test('in a value', () => {
    const of = cleanRunOf(writingRun(1, [{ n: 1 }]), writingRun(2, [{ n: 1 }]), [])
    expect(differences(writingRun(3, [{ n: 2 }]), of)).toEqual([
      'tables.rides[0].n: the clean run has 1, this run has 2.',
    ])
    expect(differences(writingRun(3, [{ n: 1 }], { m: 1 }), of)).toEqual([
      'response.body.m: the clean run has nothing, this run has 1.',
    ])
  })

  test('in a row that is missing, and in one that exists twice', () => {
    const [one, two] = [writingRun(1, [{ n: 1 }]), writingRun(2, [{ n: 1 }])]
    const of = cleanRunOf(one, two, [])
    expect(differences(writingRun(3, []), of)).toMatchInlineSnapshot(`
      [
        "tables.rides: the clean run has [{"n":1}], this run has nothing.",
      ]
    `)
    expect(differences(writingRun(3, [{ n: 1 }, { n: 1 }]), of)).toMatchInlineSnapshot(`
      [
        "tables.rides[1]: the clean run has nothing, this run has {"n":1}.",
      ]
    `)
  })

  test('in an effect at the provider', () => {
    const { story, ride, row } = begun(3)
    expect(differences(ended(story, ride, row, 'client').build())).toMatchInlineSnapshot(`
      [
        "provider[0]: the clean run has {"phase":"charge_created","method":"POST","path":"/charges","body":{"amount":1800,"ride":"00000001-0000-4000-8000-000000000001"}}, this run has nothing.",
      ]
    `)
  })

  test('if no key was ever reserved', () => {
    expect(differences(new HistoryBuilder(3).build())).toEqual(['No key was ever reserved.'])
  })

  test('for ten values at most; the rest are counted', () => {
    const of = cleanRunOf(writingRun(1, thirteenRows(1)), writingRun(2, thirteenRows(1)), [])
    const found = differences(writingRun(3, thirteenRows(2)), of)
    expect(found).toHaveLength(11)
    expect(found.at(-1)).toBe('… and 3 more differences.')
    expect(
      differences(writingRun(3, [...thirteenRows(1).slice(0, 3), ...thirteenRows(2).slice(0, 10)]), of),
    ).toHaveLength(10)
  })
})

/** A ride whose call was interrupted. */
const stuckRide = (run = 3) => begun(run).story.markStuck('client', 'unknown_outcome')

describe('a key that ended stuck', () => {
  test('is a difference, unless it may be stuck', () => {
    expect(differences(stuckRide().build())).toMatchInlineSnapshot(`
      [
        "The key ended stuck at 'ride_created' (unknown_outcome), but the clean run finished.",
      ]
    `)
    expect(differences(stuckRide().build(), clean, true)).toEqual([])
  })

  test('may or may not have had its effect', () => {
    const story = stuckRide().request('client', PHASE)
    expect(differences(story.build(), clean, true)).toEqual([])
  })

  test('must have what the clean run had at that point, and no more', () => {
    const { story } = begun(3)
    story.commit('client', insert('rides', { id: story.id() })).markStuck('client', 'unknown_outcome')
    expect(differences(story.build(), clean, true)).toHaveLength(1)
    const nothing = new HistoryBuilder(3).reserve('client').advance('client', 'ride_created')
    expect(differences(nothing.markStuck('client', 'unknown_outcome').build(), clean, true)).toHaveLength(1)
    const early = new HistoryBuilder(3).reserve('client').markStuck('client', 'attempts_exhausted')
    expect(differences(early.build(), clean, true)).toEqual([])
  })

  test('must have the effects of the phases before', () => {
    const settled = begun(3)
    ended(settled.story, settled.ride, settled.row, 'client')
    const { story } = settled
    story.write('kit', { status: 'stuck', stuck_reason: 'too_old', recovery_point: PHASE })
    expect(differences(story.build(), clean, true).join()).toContain('provider[0]: the clean run has')
  })

  test('at a point where the clean run never was is a difference', () => {
    const story = begun(3).story.write('kit', { recovery_point: 'nowhere' }).markStuck('client', 'too_old')
    expect(differences(story.build(), clean, true)).toEqual([
      "The key ended stuck at 'nowhere', where the clean run never was.",
    ])
  })

  test('is compared as a whole if the clean run ended stuck too', () => {
    const of = cleanRunOf(stuckRide(1).build(), stuckRide(2).build(), [])
    expect(differences(stuckRide().build(), of)).toEqual([])
    expect(differences(cleanRide(4).build(), of).length).toBeGreaterThan(0)
  })

  test.each([
    ['at_most_once', 'unknown_outcome', 0],
    ['keyed', 'window_passed', 0],
    ['at_most_once', 'attempts_exhausted', 1],
    ['keyed', 'unknown_outcome', 1],
    ['queryable', 'window_passed', 1],
  ] as const)('%s, because of %s: judge knows whether it may be stuck', (guarantee, reason, expected) => {
    const declared = { intent: { kind: 'calling', phase: 'charge_created', deadlineMs: 1 } }
    const history = begun(3).story.write('client', declared).markStuck('client', reason).build()
    const oracle = (options = {}) =>
      judge(history, ridesWith(guarantee), clean, options).filter(({ rule }) => rule === 'oracle')
    expect(oracle()).toHaveLength(expected)
    expect(oracle({ mayBeStuck: true })).toEqual([])
    expect(oracle({ mayBeStuck: false })).toHaveLength(1)
  })

  test('at_most_once may not be stuck if nobody had declared the call', () => {
    const history = begun(3).story.markStuck('client', 'unknown_outcome').build()
    const violations = judge(history, ridesWith('at_most_once'), clean)
    expect(violations.filter(({ rule }) => rule === 'oracle')).toHaveLength(1)
  })

  test('may not be stuck before a phase without a guarantee', () => {
    const history = new HistoryBuilder(3).reserve('client').markStuck('client', 'unknown_outcome').build()
    expect(judge(history, RIDES, clean).filter(({ rule }) => rule === 'oracle')).toHaveLength(1)
  })
})
