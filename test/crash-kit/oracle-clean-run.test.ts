import type { JsonValue } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import type { History, Row } from '../../packages/crash-kit/src/history.js'
import { cleanRunOf, compareWithClean } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import {
  aftermath,
  begun,
  cleanRide,
  crashedRide,
  ended,
  HistoryBuilder,
  insert,
  json,
  Ride,
  RIDES,
  ridesWith,
} from './history-builder.js'

const PHASE = 'charge_created'
const clean = cleanRunOf(cleanRide(1).build(), cleanRide(2).build(), [])

/** How the run differs from the clean one. */
const differences = (history: History, of = clean, mayBeStuck = false) =>
  compareWithClean(of, history, { mayBeStuck }).map(({ detail }) => detail)

/** A run that answers and writes this, in one phase. */
function writing(
  run: number,
  rows: Record<string, JsonValue>[],
  body: JsonValue = {},
  headers = {},
): History {
  const story = new HistoryBuilder(run).reserve('client')
  const changes = rows.map((row) => insert('rides', row as Row))
  return story
    .advance('client', 'ride_created', ...changes)
    .finish('client', json(200, body, headers))
    .build()
}

const uuid = (name: string) => `${name}-0000-4000-8000-000000000000`

describe('a run that ended as the clean one did', () => {
  test('differs in nothing but ids and times', () => {
    expect(differences(cleanRide(3).build())).toEqual([])
    expect(differences(crashedRide(4).build())).toEqual([])
  })

  test('may have been reaped since, or before', () => {
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

describe('a difference is seen', () => {
  test('in a value', () => {
    const of = cleanRunOf(writing(1, [{ n: 1 }]), writing(2, [{ n: 1 }]), [])
    expect(differences(writing(3, [{ n: 2 }]), of)).toEqual([
      'tables.rides[0].n: the clean run has 1, this run has 2.',
    ])
    expect(differences(writing(3, [{ n: 1 }], { m: 1 }), of)).toEqual([
      'response.body.m: the clean run has nothing, this run has 1.',
    ])
  })

  test('in a row that is not there, and one that is there twice', () => {
    const [one, two] = [writing(1, [{ n: 1 }]), writing(2, [{ n: 1 }])]
    const of = cleanRunOf(one, two, [])
    expect(differences(writing(3, []), of)).toMatchInlineSnapshot(`
      [
        "tables.rides: the clean run has [{"n":1}], this run has nothing.",
      ]
    `)
    expect(differences(writing(3, [{ n: 1 }, { n: 1 }]), of)).toMatchInlineSnapshot(`
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

  test('in a key that was never reserved', () => {
    expect(differences(new HistoryBuilder(3).build())).toEqual(['No key was ever reserved.'])
  })

  test('ten times at most, then by number', () => {
    const of = cleanRunOf(writing(1, thirteenRows(1)), writing(2, thirteenRows(1)), [])
    const found = differences(writing(3, thirteenRows(2)), of)
    expect(found).toHaveLength(11)
    expect(found.at(-1)).toBe('… and 3 more differences.')
    expect(
      differences(writing(3, [...thirteenRows(1).slice(0, 3), ...thirteenRows(2).slice(0, 10)]), of),
    ).toHaveLength(10)
  })
})

const withShortLink = (n: number, id: string | null, link: string) =>
  writing(n, [{ id }], { link: `/rides/${link}` })

const withLink = (n: number, id: string, more: string) =>
  writing(n, [{ id: uuid(id) }], { link: `${uuid(id)}/${more}` })

const byChance = (n: number, row: number, body: number) =>
  writing(n, [{ id: row }, { id: 90 + n }], { id: body })

const withNumbers = (n: number, a: number, b: number, body: number) =>
  writing(n, [{ id: a }, { id: b }], { id: body })

const withNumber = (n: number, row: number, body: string) => writing(n, [{ id: row }], { id: body })

const withCharge = (n: number, charge: JsonValue) => writing(n, [{ charge }])

const idsOf = (run: string, here: { row: string; body: string }) => ({
  rows: [{ id: uuid(`${run}${here.row}`), n: 1 }],
  body: { id: uuid(`${run}${here.body}`), n: 1 },
})

const withIds = (run: number, row: string, body: string) => {
  const { rows, body: answer } = idsOf(`run${run}`, { row, body })
  return writing(run, rows, answer)
}

describe('values that are new in each run', () => {
  const same = cleanRunOf(withIds(1, 'a', 'a'), withIds(2, 'a', 'a'), [])
  const distinct = cleanRunOf(withIds(1, 'a', 'b'), withIds(2, 'a', 'b'), [])

  test('are not compared', () => {
    expect(differences(withIds(3, 'x', 'x'), same)).toEqual([])
    expect(differences(withIds(3, 'x', 'y'), distinct)).toEqual([])
  })

  test('are equal to each other where they were', () => {
    expect(differences(withIds(3, 'x', 'y'), same)).toMatchInlineSnapshot(`
      [
        "response.body.id: in the clean run it equals tables.rides[0].id; here it is "run3y-0000-4000-8000-000000000000", and that is "run3x-0000-4000-8000-000000000000".",
      ]
    `)
  })

  test('differ from each other where they did', () => {
    expect(differences(withIds(3, 'x', 'x'), distinct)).toMatchInlineSnapshot(`
      [
        "response.body.id: in the clean run it differs from tables.rides[0].id; here both are "run3x-0000-4000-8000-000000000000".",
      ]
    `)
  })

  test('are of the same kind: one that was never set is seen', () => {
    const of = cleanRunOf(withCharge(1, 'ch_1'), withCharge(2, 'ch_2'), [])
    expect(differences(withCharge(3, 'ch_3'), of)).toEqual([])
    expect(differences(withCharge(3, null), of)).toMatchInlineSnapshot(`
      [
        "tables.rides[0].charge: the clean run has "ch_1", this run has null.",
      ]
    `)
  })

  test('are numbers as well, and a number equals its text', () => {
    const of = cleanRunOf(withNumber(1, 11, '11'), withNumber(2, 12, '12'), [])
    expect(differences(withNumber(3, 17, '17'), of)).toEqual([])
    expect(differences(withNumber(3, 17, '18'), of)).toHaveLength(1)
  })

  test('of two sequences may meet by chance, those of one may not', () => {
    const of = cleanRunOf(withNumbers(1, 1, 2, 5), withNumbers(2, 3, 4, 9), [])
    expect(differences(withNumbers(3, 5, 6, 6), of)).toEqual([])
    expect(differences(withNumbers(3, 5, 5, 7), of)).toHaveLength(1)
  })

  test('that were equal once by chance may be different, and the other way round', () => {
    const chance = cleanRunOf(byChance(1, 7, 7), byChance(2, 8, 9), [])
    expect(differences(byChance(3, 4, 4), chance)).toEqual([])
    expect(differences(byChance(3, 4, 5), chance)).toEqual([])
    const once = cleanRunOf(withIds(1, 'a', 'a'), withIds(2, 'a', 'b'), [])
    expect(differences(withIds(3, 'x', 'x'), once)).toEqual([])
    expect(differences(withIds(3, 'x', 'y'), once)).toEqual([])
  })

  test('inside a longer text are the same ids there', () => {
    const run = (n: number, id: string, link = id) =>
      writing(n, [{ id: uuid(id) }], {}, { location: `https://api/rides/${uuid(link)}?from=${uuid(link)}` })
    const of = cleanRunOf(run(1, 'aaaaaaaa'), run(2, 'bbbbbbbb'), [])
    expect(differences(run(3, 'cccccccc'), of)).toEqual([])
    expect(differences(run(3, 'cccccccc', 'dddddddd'), of)).toMatchInlineSnapshot(`
      [
        "response.headers.location: the clean run has "https://api/rides/aaaaaaaa-0000-4000-8000-000000000000?from=aaaaaaaa-0000-4000-8000-000000000000", this run has "https://api/rides/dddddddd-0000-4000-8000-000000000000?from=dddddddd-0000-4000-8000-000000000000".",
      ]
    `)
    const elsewhere = writing(3, [{ id: uuid('cccccccc') }], {}, { location: `/cars/${uuid('cccccccc')}` })
    expect(differences(elsewhere, of)).toHaveLength(1)
  })

  test('a text with more than ids in it that is new is an id itself', () => {
    const of = cleanRunOf(withLink(1, 'aaaaaaaa', 'one'), withLink(2, 'bbbbbbbb', 'two'), [])
    expect(differences(withLink(3, 'cccccccc', 'three'), of)).toEqual([])
  })

  test('a short id that is missing where a longer text has it does no harm', () => {
    const of = cleanRunOf(withShortLink(1, uuid('a'), uuid('a')), withShortLink(2, uuid('b'), uuid('b')), [])
    expect(differences(withShortLink(3, '', ''), of)).toHaveLength(1)
    expect(differences(withShortLink(3, null, 'x'), of)).toHaveLength(2)
  })
})

const withTime = (n: number, at: JsonValue, more: JsonValue = at) => writing(n, [{ at, more }])

describe('times', () => {
  test.each([
    [
      'PostgreSQL',
      '2026-03-01T13:00:00.123456+00:00',
      '2026-03-01T14:00:01.5+00:00',
      '2026-03-01 15:00:00+00',
    ],
    [
      'HTTP',
      'Sun, 01 Mar 2026 13:00:00 GMT',
      'Sun, 01 Mar 2026 14:00:00 GMT',
      'Sun, 01 Mar 2026 15:00:00 GMT',
    ],
    ['milliseconds', 1_772_370_000_123, 1_772_373_600_456, 1_772_377_200_789],
    ['seconds', 1_772_370_000, 1_772_373_600, 1_772_377_200],
  ])('of %s are any time, and nothing else', (_what, one, other, here) => {
    const of = cleanRunOf(withTime(1, one), withTime(2, other), [])
    expect(differences(withTime(3, here, one), of)).toEqual([])
    expect(differences(withTime(3, typeof here === 'number' ? 7 : 'soon', one), of)).toHaveLength(1)
  })

  test('that were the same in both runs are new if they are about now', () => {
    const day = cleanRunOf(withTime(1, '2026-03-01'), withTime(2, '2026-03-01'), [])
    expect(differences(withTime(3, '2026-03-02'), day)).toEqual([])
    const given = cleanRunOf(withTime(1, '2031-05-05'), withTime(2, '2031-05-05'), [])
    expect(differences(withTime(3, '2031-05-06'), given)).toHaveLength(2)
  })

  test('a text that only begins like a time is none', () => {
    const of = cleanRunOf(withTime(1, '2026-03-01 was the day'), withTime(2, '2026-03-01 was the day'), [])
    expect(differences(withTime(3, '2026-03-02 was the day'), of)).toHaveLength(2)
    const never = cleanRunOf(withTime(1, '2026-99-01'), withTime(2, '2026-99-02'), [])
    expect(differences(withTime(3, 'any other'), never)).toEqual([])
    const wrong = cleanRunOf(withTime(1, '2026-99-01'), withTime(2, '2026-99-01'), [])
    expect(differences(withTime(3, '2026-98-01'), wrong)).toHaveLength(2)
  })
})

const withNote = (n: number, rows: Record<string, JsonValue>[], body: JsonValue = { a: { b: 1 } }) =>
  writing(n, rows, body)

describe('ignore', () => {
  const learn = (ignore: string[]) =>
    cleanRunOf(withNote(1, [{ id: 1, note: 'x' }]), withNote(2, [{ id: 1, note: 'x' }]), ignore)
  const other = withNote(3, [{ id: 1, note: 'y' }], { a: { b: 2 } })

  test('leaves out a path, all below it, and one name by a star', () => {
    expect(differences(other, learn([]))).toHaveLength(2)
    expect(differences(other, learn(['tables.rides.note', 'response.body.a']))).toEqual([])
    expect(differences(other, learn(['tables', 'response.*.a.b']))).toEqual([])
    expect(differences(other, learn(['tables.*.note']))).toEqual([
      'response.body.a.b: the clean run has 1, this run has 2.',
    ])
    expect(differences(other, learn(['tables.*.id']))).toHaveLength(2)
  })

  test('of a path that is nowhere is an error that says what there is', () => {
    expect(() => learn(['tables.rides.notes'])).toThrowErrorMatchingInlineSnapshot(
      `[KitError: crashKit: ignore: 'tables.rides.notes' matches nothing in a run without faults. It takes paths such as tables.rides, tables.rides.id, tables.rides.note; a path stands for all below it, '*' for one name, and indexes do not count.]`,
    )
    expect(() => learn(['table.rides'])).toThrow(/'table\.rides' matches nothing .* such as tables, /)
    expect(() => learn(['response.body.a.b.c'])).toThrow(
      expect.objectContaining({ code: 'PAWL_KIT_INVALID_OPTION' }),
    )
  })

  test('is what helps where two clean runs are not alike', () => {
    const [one, two] = [withNote(1, [{ n: 1 }]), withNote(2, [{ n: 1 }, { n: 2 }])]
    expect(() => cleanRunOf(one, two, [])).toThrowErrorMatchingInlineSnapshot(
      `[KitError: crashKit: two runs without faults differ already, at tables.rides[1]: nothing and {"n":2}. Make the pipeline do the same each time, or leave it out with ignore: ['tables.rides'].]`,
    )
    expect(differences(withNote(3, []), cleanRunOf(one, two, ['tables.rides']))).toEqual([])
  })
})

/** The client's call was interrupted. */
const stuckRide = (run = 3) => begun(run).story.markStuck('client', 'unknown_outcome')

describe('a key that ended stuck', () => {
  test('is a difference, unless it may be', () => {
    expect(differences(stuckRide().build())).toMatchInlineSnapshot(`
      [
        "The key ended stuck at 'ride_created' (unknown_outcome), and the clean run finished.",
      ]
    `)
    expect(differences(stuckRide().build(), clean, true)).toEqual([])
  })

  test('may have had its effect, or not', () => {
    const story = stuckRide().request('client', PHASE)
    expect(differences(story.build(), clean, true)).toEqual([])
  })

  test('has what the clean run had at that point, and no more', () => {
    const { story } = begun(3)
    story.commit('client', insert('rides', { id: story.id() })).markStuck('client', 'unknown_outcome')
    expect(differences(story.build(), clean, true)).toHaveLength(1)
    const nothing = new HistoryBuilder(3).reserve('client').advance('client', 'ride_created')
    expect(differences(nothing.markStuck('client', 'unknown_outcome').build(), clean, true)).toHaveLength(1)
    const early = new HistoryBuilder(3).reserve('client').markStuck('client', 'attempts_exhausted')
    expect(differences(early.build(), clean, true)).toEqual([])
  })

  test('has the effects of the phases before', () => {
    const settled = begun(3)
    ended(settled.story, settled.ride, settled.row, 'client')
    const { story } = settled
    story.write('kit', { status: 'stuck', stuck_reason: 'too_old', recovery_point: PHASE })
    expect(differences(story.build(), clean, true).join()).toContain('provider[0]: the clean run has')
  })

  test('where the clean run never was is a difference', () => {
    const story = begun(3).story.write('kit', { recovery_point: 'nowhere' }).markStuck('client', 'too_old')
    expect(differences(story.build(), clean, true)).toEqual([
      "The key ended stuck at 'nowhere', where the clean run never was.",
    ])
  })

  test('as the clean run did is compared as a whole', () => {
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
  ] as const)('%s, by %s: the judge knows whether it may be', (guarantee, reason, expected) => {
    const declared = { intent: { kind: 'calling', phase: 'charge_created', deadlineMs: 1 } }
    const history = begun(3).story.write('client', declared).markStuck('client', reason).build()
    const oracle = (options = {}) =>
      judge(history, ridesWith(guarantee), clean, options).filter(({ rule }) => rule === 'oracle')
    expect(oracle()).toHaveLength(expected)
    expect(oracle({ mayBeStuck: true })).toEqual([])
    expect(oracle({ mayBeStuck: false })).toHaveLength(1)
  })

  test('at_most_once may not be where nobody had declared the call', () => {
    const history = begun(3).story.markStuck('client', 'unknown_outcome').build()
    const violations = judge(history, ridesWith('at_most_once'), clean)
    expect(violations.filter(({ rule }) => rule === 'oracle')).toHaveLength(1)
  })

  test('before a phase without a guarantee may not be', () => {
    const history = new HistoryBuilder(3).reserve('client').markStuck('client', 'unknown_outcome').build()
    expect(judge(history, RIDES, clean).filter(({ rule }) => rule === 'oracle')).toHaveLength(1)
  })
})
