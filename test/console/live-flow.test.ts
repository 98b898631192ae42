import type { Flow } from '@pawl/core'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ConsoleError } from '../../packages/console/src/console-error.js'
import { type FlowNews, LiveFlow } from '../../packages/console/src/live-flow.js'
import { MAX_FLOW_AGE_MS, MAX_POLL_SHARE } from '../../packages/console/src/limits.js'

/** Who reads when, by a clock that the test moves. */

const POLL_MS = 1_000
const flow = { at: new Date() } as unknown as Flow

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function live(read: () => Promise<Flow>) {
  const onGone = vi.fn()
  const explain = (cause: unknown) => new ConsoleError('database_away', 'away', { cause })
  return { onGone, live: new LiveFlow({ read, explain, onGone, pollMs: POLL_MS }) }
}

test('nothing is read, and no timer is set, while nobody looks', async () => {
  const read = vi.fn(() => Promise.resolve(flow))
  const { live: it } = live(read)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(read).not.toHaveBeenCalled()
  const heard: FlowNews[] = []
  const stops = [it.listen((news) => heard.push(news)), it.listen((news) => heard.push(news))]
  await vi.advanceTimersByTimeAsync(0)
  expect([read.mock.calls.length, heard.length]).toEqual([1, 2])
  await vi.advanceTimersByTimeAsync(3 * POLL_MS)
  expect([read.mock.calls.length, heard.length]).toEqual([4, 8])
  stops[0]?.()
  expect(vi.getTimerCount()).toBe(1)
  stops[1]?.()
  expect(vi.getTimerCount()).toBe(0)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(read).toHaveBeenCalledTimes(4)
})

test('where a reading takes long, they take no more than their share of the time', async () => {
  const tookMs = 500
  const read = vi.fn(async () => {
    await new Promise((resolve) => setTimeout(resolve, tookMs))
    return flow
  })
  const { live: it } = live(read)
  it.listen(() => {})
  const overMs = 60_000
  await vi.advanceTimersByTimeAsync(overMs)
  expect(read.mock.calls.length * tookMs).toBeLessThanOrEqual(overMs * MAX_POLL_SHARE + tookMs)
  expect(read.mock.calls.length).toBeGreaterThan(1)
  const closed = it.close()
  await vi.advanceTimersByTimeAsync(tookMs)
  await closed
})

test('several that ask at once share a reading, and what is two seconds old is read again', async () => {
  const read = vi.fn(() => Promise.resolve(flow))
  const { live: it } = live(read)
  await Promise.all([it.current(), it.current(), it.current()])
  await it.current()
  expect(read).toHaveBeenCalledTimes(1)
  vi.advanceTimersByTime(MAX_FLOW_AGE_MS + 1)
  await it.current()
  expect(read).toHaveBeenCalledTimes(2)
})

test('a failure is told to everybody and logged once, and the polls go on', async () => {
  let isAway = true
  const read = vi.fn(() => (isAway ? Promise.reject(new Error('sesame')) : Promise.resolve(flow)))
  const { live: it, onGone } = live(read)
  const heard: FlowNews['type'][] = []
  it.listen(({ type }) => heard.push(type))
  await vi.advanceTimersByTimeAsync(2 * POLL_MS)
  await expect(it.current()).rejects.toMatchObject({ code: 'database_away', message: 'away' })
  isAway = false
  await vi.advanceTimersByTimeAsync(POLL_MS)
  isAway = true
  await vi.advanceTimersByTimeAsync(POLL_MS)
  expect(heard).toEqual(['gone', 'gone', 'gone', 'flow', 'gone'])
  expect(onGone).toHaveBeenCalledTimes(2)
  await it.close()
})
