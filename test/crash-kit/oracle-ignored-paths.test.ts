import type { JsonValue } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import type { History } from '../../packages/crash-kit/src/history.js'
import { type CleanRun, cleanRunOf, compareWithClean } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { writingRun } from './writing-run.js'

/** Returns how the run differs from the clean one. */
const differences = (history: History, of: CleanRun) =>
  compareWithClean(of, history).map(({ detail }) => detail)

const withNote = (n: number, rows: Record<string, JsonValue>[], body: JsonValue = { a: { b: 1 } }) =>
  writingRun(n, rows, body)

describe('ignore', () => {
  const learn = (ignore: string[]) =>
    cleanRunOf(withNote(1, [{ id: 1, note: 'x' }]), withNote(2, [{ id: 1, note: 'x' }]), ignore)
  const other = withNote(3, [{ id: 1, note: 'y' }], { a: { b: 2 } })

  test('leaves out a path and everything below it, and a star stands for one name', () => {
    expect(differences(other, learn([]))).toHaveLength(2)
    expect(differences(other, learn(['tables.rides.note', 'response.body.a']))).toEqual([])
    expect(differences(other, learn(['tables', 'response.*.a.b']))).toEqual([])
    expect(differences(other, learn(['tables.*.note']))).toEqual([
      'response.body.a.b: the clean run has 1, this run has 2.',
    ])
    expect(differences(other, learn(['tables.*.id']))).toHaveLength(2)
  })

  test('refuses a path that matches nothing, and lists paths that exist', () => {
    expect(() => learn(['tables.rides.notes'])).toThrowErrorMatchingInlineSnapshot(
      `[KitError: crashKit: ignore: 'tables.rides.notes' matches nothing in a run without faults. It takes paths such as tables.rides, tables.rides.id, tables.rides.note; a path stands for everything below it, '*' for one name, and indexes do not count.]`,
    )
    expect(() => learn(['table.rides'])).toThrow(/'table\.rides' matches nothing .* such as tables, /)
    expect(() => learn(['response.body.a.b.c'])).toThrow(
      expect.objectContaining({ code: 'PAWL_KIT_INVALID_OPTION' }),
    )
  })

  test('helps if two clean runs differ in shape', () => {
    const [one, two] = [withNote(1, [{ n: 1 }]), withNote(2, [{ n: 1 }, { n: 2 }])]
    expect(() => cleanRunOf(one, two, [])).toThrowErrorMatchingInlineSnapshot(
      `[KitError: crashKit: two runs without faults already differ, at tables.rides[1]: nothing and {"n":2}. Make the pipeline do the same each time, or leave it out with ignore: ['tables.rides'].]`,
    )
    expect(differences(withNote(3, []), cleanRunOf(one, two, ['tables.rides']))).toEqual([])
  })
})
