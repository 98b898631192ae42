import { describe, expect, test } from 'vitest'
import { KnownPosition, PrimaryPositions } from '../../packages/core/src/request/primary-positions.js'
import { thisMoment } from '../../packages/core/src/moment.js'
import { endOfRecords } from '../../packages/core/src/storage/keys/read-written-position.js'

const MAX_AGE_MS = 60_000

/** A position that was asked for that long ago, on both clocks or on one. */
function known(
  position: bigint,
  agoMs = 0,
  of: { timeline?: number; wallAgoMs?: number } = {},
): KnownPosition {
  const { monotonic, wallMs } = thisMoment()
  const { timeline = 1, wallAgoMs = agoMs } = of
  const written = { database: '7/5', timeline, position, nowMs: 5_000 }
  return new KnownPosition(written, { monotonic: monotonic - agoMs, wallMs: wallMs - wallAgoMs })
}

function positionsOf(...answers: (KnownPosition | Error)[]): {
  positions: PrimaryPositions
  asked: () => number
} {
  let asked = 0
  const ask = async (): Promise<KnownPosition> => {
    const answer = answers[asked++]
    if (answer instanceof KnownPosition) return answer
    throw answer ?? new Error('asked too often')
  }
  return { positions: new PrimaryPositions(ask, MAX_AGE_MS), asked: () => asked }
}

const bound = async (positions: PrimaryPositions): Promise<bigint> =>
  (await positions.oldestAllowed()).written.position

test('the primary is asked once by all who need to know, and not again while the answer is recent', async () => {
  const { positions, asked } = positionsOf(known(10n))
  expect(await Promise.all([bound(positions), bound(positions), bound(positions)])).toEqual([10n, 10n, 10n])
  expect(await bound(positions)).toBe(10n)
  expect(asked()).toBe(1)
})

test('a newer position is asked for in good time, and the older one binds as long as it is allowed', async () => {
  const { positions, asked } = positionsOf(known(10n, MAX_AGE_MS / 2 + 1), known(20n))
  expect(await bound(positions)).toBe(10n)
  expect(await bound(positions)).toBe(10n)
  expect(asked()).toBe(2)
  expect(await bound(positions)).toBe(10n)
  expect(asked()).toBe(2)
})

test('a position that is too old binds nobody, by whichever clock', async () => {
  for (const old of [known(10n, MAX_AGE_MS + 1), known(10n, 0, { wallAgoMs: MAX_AGE_MS + 1 })]) {
    const { positions, asked } = positionsOf(old, known(20n))
    await expect(bound(positions)).rejects.toThrow('took too long')
    expect(await bound(positions)).toBe(20n)
    expect(asked()).toBe(2)
  }
})

test.each([
  ['on a new timeline', known(20n, 0, { timeline: 2 })],
  ['behind the last one', known(9n)],
])('a position %s makes the others forgotten', async (_, next) => {
  const { positions } = positionsOf(known(10n, MAX_AGE_MS / 2 + 1), next)
  expect(await bound(positions)).toBe(10n)
  await bound(positions)
  expect(await bound(positions)).toBe(next.written.position)
})

test('if the primary does not answer, what is known binds on, and then nobody learns anything', async () => {
  const { positions } = positionsOf(known(10n, MAX_AGE_MS / 2 + 1), new Error('away'), new Error('away'))
  expect(await bound(positions)).toBe(10n)
  expect(await bound(positions)).toBe(10n)
  const { positions: unknown } = positionsOf(new Error('away'))
  await expect(bound(unknown)).rejects.toThrow('away')
})

test("the primary's clock is never believed to be earlier than it is", () => {
  expect(known(10n, 1_000).primaryNowMs).toBeGreaterThanOrEqual(6_001)
})

describe('where the last record ends', () => {
  test.each([
    [8_192n + 24n, 8_192n],
    [16n * 1_048_576n + 40n, 16n * 1_048_576n],
    [8_192n, 8_192n],
    [8_192n + 48n, 8_192n + 48n],
    [16_384n - 8n, 16_384n - 8n],
  ])('if the next one begins at %d', (next, end) => {
    expect(endOfRecords(next, 8_192n)).toBe(end)
  })
})
