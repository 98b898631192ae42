import type { FoundKey, KeyLook } from '@pawl/core/internal'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { KeyWatch, type Turn } from '../../packages/fastify-adapter/src/key-watch.js'
import { MAX_POLL_MS, TURN_MS } from '../../packages/fastify-adapter/src/limits.js'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const BUSY: KeyLook = { type: 'busy', dueInMs: 30_000 }
const row = { key: 'k' } as FoundKey

/** A watch over a key that looks as a test says, and the turns of those who wait. */
function watchOver(first: KeyLook) {
  let look = first
  let looks = 0
  const watch = new KeyWatch(async () => {
    looks++
    return look
  })
  const turns: [string, Turn][] = []
  const add = (name: string, takesOver = true) => {
    const waiter = { takesOver, wake: (turn: Turn) => void turns.push([name, turn]) }
    watch.add(waiter)
    return waiter
  }
  const becomes = (next: KeyLook) => void (look = next)
  return { watch, turns, add, becomes, looks: () => looks }
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('one question is asked, however many wait', async () => {
  const counts = []
  for (const waiters of [1, 1_000]) {
    const random = vi.spyOn(Math, 'random').mockReturnValue(0.5)
    const { add, looks, turns } = watchOver(BUSY)
    for (let waiter = 0; waiter < waiters; waiter++) add(String(waiter))
    await pass(10_000)
    expect(turns).toEqual([])
    counts.push(looks())
    random.mockRestore()
  }
  expect(counts[0]).toBeGreaterThan(20)
  expect(counts[1]).toBe(counts[0])
})

test('an answer wakes all of them, each with the same row', async () => {
  const { add, turns, becomes, looks, watch } = watchOver(BUSY)
  for (const name of ['a', 'b', 'c']) add(name, name !== 'c')
  becomes({ type: 'answered', row })
  watch.news()
  await pass(0)
  expect(turns).toEqual(['a', 'b', 'c'].map((name) => [name, { type: 'ask', found: row }]))
  expect(looks()).toBe(1)
})

test('a key that nobody runs wakes the first that would, and the next only if that one does not take it over', async () => {
  const { add, turns, becomes } = watchOver({ type: 'idle' })
  add('enqueued', false)
  add('first')
  add('second')
  await pass(MAX_POLL_MS)
  expect(turns).toEqual([['first', { type: 'ask', found: null }]])
  becomes(BUSY)
  await pass(10 * TURN_MS)
  expect(turns).toHaveLength(1)
  becomes({ type: 'idle' })
  await pass(2 * TURN_MS)
  expect(turns.map(([name]) => name)).toEqual(['first', 'second'])
  await pass(10 * TURN_MS)
  expect(turns).toHaveLength(2)
})

test('a turn is given a while', async () => {
  const { add, turns } = watchOver({ type: 'idle' })
  for (let waiter = 0; waiter < 100; waiter++) add(String(waiter))
  await pass(MAX_POLL_MS)
  await pass(4 * TURN_MS)
  expect(turns.length).toBeGreaterThan(2)
  expect(turns.length).toBeLessThanOrEqual(5)
})

test('a key that is gone wakes one of them, who may only be enqueued', async () => {
  const { add, turns } = watchOver({ type: 'gone' })
  add('enqueued', false)
  add('other')
  await pass(MAX_POLL_MS)
  expect(turns).toEqual([['enqueued', { type: 'ask', found: null }]])
})

test.each<KeyLook>([{ type: 'unavailable', error: 'away' }])(
  'a store that is away is told to all',
  async (look) => {
    const { add, turns } = watchOver(look)
    add('a')
    add('b')
    await pass(MAX_POLL_MS)
    expect(turns).toEqual([
      ['a', look],
      ['b', look],
    ])
  },
)

test('a key that rests is looked at as soon as it is due', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(1)
  const { add, looks } = watchOver({ type: 'busy', dueInMs: 10 })
  add('a')
  await pass(51)
  expect(looks()).toBe(1)
  await pass(25)
  expect(looks()).toBe(3)
  vi.restoreAllMocks()
})

test('once nobody waits, nobody asks', async () => {
  const { add, watch, looks } = watchOver(BUSY)
  const [a, b] = [add('a'), add('b')]
  watch.remove(a)
  watch.remove(b)
  watch.news()
  await pass(10_000)
  expect(looks()).toBe(0)
  expect(vi.getTimerCount()).toBe(0)
})

test('news that comes while all have their turn is not missed', async () => {
  const { add, watch, looks } = watchOver(BUSY)
  const [a] = [add('a')]
  watch.remove(a)
  watch.news()
  add('a')
  await pass(0)
  expect(looks()).toBe(1)
})
