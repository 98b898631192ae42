import type { JsonValue } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import type { History } from '../../packages/crash-kit/src/history.js'
import { type CleanRun, cleanRunOf, compareWithClean } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { writingRun } from './writing-run.js'

/** Returns how the run differs from the clean one. */
const differences = (history: History, of: CleanRun) =>
  compareWithClean(of, history).map(({ detail }) => detail)

const uuid = (name: string) => `${name}-0000-4000-8000-000000000000`

const withShortLink = (n: number, id: string | null, link: string) =>
  writingRun(n, [{ id }], { link: `/rides/${link}` })

const withLink = (n: number, id: string, more: string) =>
  writingRun(n, [{ id: uuid(id) }], { link: `${uuid(id)}/${more}` })

const byChance = (n: number, row: number, body: number) =>
  writingRun(n, [{ id: row }, { id: 90 + n }], { id: body })

const withNumbers = (n: number, a: number, b: number, body: number) =>
  writingRun(n, [{ id: a }, { id: b }], { id: body })

const withNumber = (n: number, row: number, body: string) => writingRun(n, [{ id: row }], { id: body })

const withCharge = (n: number, charge: JsonValue) => writingRun(n, [{ charge }])

const idsOf = (run: string, here: { row: string; body: string }) => ({
  rows: [{ id: uuid(`${run}${here.row}`), n: 1 }],
  body: { id: uuid(`${run}${here.body}`), n: 1 },
})

const withIds = (run: number, row: string, body: string) => {
  const { rows, body: answer } = idsOf(`run${run}`, { row, body })
  return writingRun(run, rows, answer)
}

describe('values that are new in each run', () => {
  const same = cleanRunOf(withIds(1, 'a', 'a'), withIds(2, 'a', 'a'), [])
  const distinct = cleanRunOf(withIds(1, 'a', 'b'), withIds(2, 'a', 'b'), [])

  test('are not compared', () => {
    expect(differences(withIds(3, 'x', 'x'), same)).toEqual([])
    expect(differences(withIds(3, 'x', 'y'), distinct)).toEqual([])
  })

  test('have to be equal to each other where they were', () => {
    expect(differences(withIds(3, 'x', 'y'), same)).toMatchInlineSnapshot(`
      [
        "response.body.id: in the clean run it equals tables.rides[0].id; here it is "run3y-0000-4000-8000-000000000000", and the other is "run3x-0000-4000-8000-000000000000".",
      ]
    `)
  })

  test('have to differ from each other where they did', () => {
    expect(differences(withIds(3, 'x', 'x'), distinct)).toMatchInlineSnapshot(`
      [
        "response.body.id: in the clean run it differs from tables.rides[0].id; here both are "run3x-0000-4000-8000-000000000000".",
      ]
    `)
  })

  test('have to be of the same type: one that was never set is reported', () => {
    const of = cleanRunOf(withCharge(1, 'ch_1'), withCharge(2, 'ch_2'), [])
    expect(differences(withCharge(3, 'ch_3'), of)).toEqual([])
    expect(differences(withCharge(3, null), of)).toMatchInlineSnapshot(`
      [
        "tables.rides[0].charge: the clean run has "ch_1", this run has null.",
      ]
    `)
  })

  test('may be numbers, and a number equals its text', () => {
    const of = cleanRunOf(withNumber(1, 11, '11'), withNumber(2, 12, '12'), [])
    expect(differences(withNumber(3, 17, '17'), of)).toEqual([])
    expect(differences(withNumber(3, 17, '18'), of)).toHaveLength(1)
  })

  test('of two sequences may be equal by chance, but those of one may not', () => {
    const of = cleanRunOf(withNumbers(1, 1, 2, 5), withNumbers(2, 3, 4, 9), [])
    expect(differences(withNumbers(3, 5, 6, 6), of)).toEqual([])
    expect(differences(withNumbers(3, 5, 5, 7), of)).toHaveLength(1)
  })

  test('that were once equal by chance may differ, and the other way round', () => {
    const chance = cleanRunOf(byChance(1, 7, 7), byChance(2, 8, 9), [])
    expect(differences(byChance(3, 4, 4), chance)).toEqual([])
    expect(differences(byChance(3, 4, 5), chance)).toEqual([])
    const once = cleanRunOf(withIds(1, 'a', 'a'), withIds(2, 'a', 'b'), [])
    expect(differences(withIds(3, 'x', 'x'), once)).toEqual([])
    expect(differences(withIds(3, 'x', 'y'), once)).toEqual([])
  })

  test('have to be the same inside a longer text', () => {
    const run = (n: number, id: string, link = id) =>
      writingRun(
        n,
        [{ id: uuid(id) }],
        {},
        { location: `https://api/rides/${uuid(link)}?from=${uuid(link)}` },
      )
    const of = cleanRunOf(run(1, 'aaaaaaaa'), run(2, 'bbbbbbbb'), [])
    expect(differences(run(3, 'cccccccc'), of)).toEqual([])
    expect(differences(run(3, 'cccccccc', 'dddddddd'), of)).toMatchInlineSnapshot(`
      [
        "response.headers.location: the clean run has "https://api/rides/aaaaaaaa-0000-4000-8000-000000000000?from=aaaaaaaa-0000-4000-8000-000000000000", this run has "https://api/rides/dddddddd-0000-4000-8000-000000000000?from=dddddddd-0000-4000-8000-000000000000".",
      ]
    `)
    const elsewhere = writingRun(3, [{ id: uuid('cccccccc') }], {}, { location: `/cars/${uuid('cccccccc')}` })
    expect(differences(elsewhere, of)).toHaveLength(1)
  })

  test('include a new text that contains more than ids', () => {
    const of = cleanRunOf(withLink(1, 'aaaaaaaa', 'one'), withLink(2, 'bbbbbbbb', 'two'), [])
    expect(differences(withLink(3, 'cccccccc', 'three'), of)).toEqual([])
  })

  test('may be missing if they are short, where a longer text contains them', () => {
    const of = cleanRunOf(withShortLink(1, uuid('a'), uuid('a')), withShortLink(2, uuid('b'), uuid('b')), [])
    expect(differences(withShortLink(3, '', ''), of)).toHaveLength(1)
    expect(differences(withShortLink(3, null, 'x'), of)).toHaveLength(2)
  })
})

const withTime = (n: number, at: JsonValue, more: JsonValue = at) => writingRun(n, [{ at, more }])

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
  ])('of %s may be any time, and nothing else', (_what, one, other, here) => {
    const of = cleanRunOf(withTime(1, one), withTime(2, other), [])
    expect(differences(withTime(3, here, one), of)).toEqual([])
    expect(differences(withTime(3, typeof here === 'number' ? 7 : 'soon', one), of)).toHaveLength(1)
  })

  test('that were the same in both runs may differ if they are close to the run', () => {
    const day = cleanRunOf(withTime(1, '2026-03-01'), withTime(2, '2026-03-01'), [])
    expect(differences(withTime(3, '2026-03-02'), day)).toEqual([])
    const given = cleanRunOf(withTime(1, '2031-05-05'), withTime(2, '2031-05-05'), [])
    expect(differences(withTime(3, '2031-05-06'), given)).toHaveLength(2)
  })

  test('do not include texts that only begin like a time', () => {
    const of = cleanRunOf(withTime(1, '2026-03-01 was the day'), withTime(2, '2026-03-01 was the day'), [])
    expect(differences(withTime(3, '2026-03-02 was the day'), of)).toHaveLength(2)
    const never = cleanRunOf(withTime(1, '2026-99-01'), withTime(2, '2026-99-02'), [])
    expect(differences(withTime(3, 'any other'), never)).toEqual([])
    const wrong = cleanRunOf(withTime(1, '2026-99-01'), withTime(2, '2026-99-01'), [])
    expect(differences(withTime(3, '2026-98-01'), wrong)).toHaveLength(2)
  })
})
