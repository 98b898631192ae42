import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Poller } from '../../packages/core/src/background/service.js'
import { gate, hear } from '../support/signals.js'

const POLL_MS = 1_000
const FIRST_RETRY_MS = 1_000
const LONGEST_RETRY_MS = 30_000

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

/** What the random numbers are: 0 is the lowest, and 1 stands for the highest. */
const chance = (value: number) => vi.spyOn(Math, 'random').mockReturnValue(value)

/** A poller whose rounds end as listed, one after the other. After the list, they are idle. */
function pollerOf(...ends: ('more' | 'idle' | 'fail' | Promise<unknown>)[]) {
  const rounds = { begun: 0, signals: [] as AbortSignal[] }
  const underWay = new Set<Promise<unknown>>()
  const poller = new Poller({
    service: 'reaper',
    tracing: { current: null },
    pollMs: POLL_MS,
    underWay,
    round: async (stopping) => {
      const end = ends[rounds.begun++] ?? 'idle'
      rounds.signals.push(stopping)
      if (end === 'fail') throw new Error(`round ${rounds.begun}`)
      if (end instanceof Promise) await end
      return { counts: { round: rounds.begun }, more: end === 'more' }
    },
  })
  return { poller, rounds, underWay }
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

describe('pauses', () => {
  test('there is none before the first round, and none after a round that has more to do', async () => {
    const announced = hear('pawl:round')
    const { poller, rounds } = pollerOf('more', 'more', 'idle')
    poller.start()
    await pass(0)
    expect(rounds.begun).toBe(3)
    expect(announced.map(({ service, counts }) => [service, counts['round']])).toEqual([
      ['reaper', 1],
      ['reaper', 2],
      ['reaper', 3],
    ])
    await poller.stop()
  })

  test.each([
    [0, POLL_MS / 2],
    [1, POLL_MS],
  ])(
    'without more to do, it is between half of the interval and all of it (chance %d)',
    async (drawn, ms) => {
      chance(drawn)
      const { poller, rounds } = pollerOf()
      poller.start()
      await pass(0)
      await pass(ms - 1)
      expect(rounds.begun).toBe(1)
      await pass(1)
      expect(rounds.begun).toBe(2)
      await poller.stop()
    },
  )

  test('after a failure, which is reported, it gets longer each time up to a cap, and is reset by a success', async () => {
    chance(1)
    const failed = hear('pawl:round_failed')
    const ends = [...Array.from({ length: 8 }, () => 'fail' as const), 'idle', 'fail', 'fail'] as const
    const { poller, rounds } = pollerOf(...ends)
    poller.start()
    await pass(0)
    let ms = FIRST_RETRY_MS
    for (let failures = 1; failures <= 8; failures++) {
      expect(failed).toHaveLength(failures)
      expect(failed.at(-1)).toMatchObject({
        service: 'reaper',
        failures,
        error: { message: `round ${failures}` },
      })
      await pass(ms - 1)
      expect(rounds.begun).toBe(failures)
      await pass(1)
      expect(rounds.begun).toBe(failures + 1)
      ms = Math.min(ms * 2, LONGEST_RETRY_MS)
    }
    await pass(POLL_MS)
    expect(failed.at(-1)).toMatchObject({ failures: 1, error: { message: 'round 10' } })
    await pass(FIRST_RETRY_MS)
    expect(failed.at(-1)).toMatchObject({ failures: 2, error: { message: 'round 11' } })
    await poller.stop()
  })

  test('after a failure, chance shortens it by half at most', async () => {
    chance(0)
    const { poller, rounds } = pollerOf('fail')
    poller.start()
    await pass(FIRST_RETRY_MS / 2 - 1)
    expect(rounds.begun).toBe(1)
    await pass(1)
    expect(rounds.begun).toBe(2)
    await poller.stop()
  })
})

describe('a wake-up', () => {
  test('ends the pause', async () => {
    const { poller, rounds } = pollerOf()
    poller.start()
    await pass(0)
    poller.wake()
    await pass(0)
    expect(rounds.begun).toBe(2)
    await pass(POLL_MS / 2 - 1)
    expect(rounds.begun).toBe(2)
    await poller.stop()
  })

  test('during a round makes another follow at once: one, however many there were', async () => {
    const first = gate()
    const { poller, rounds } = pollerOf(first.opened)
    poller.start()
    await pass(0)
    poller.wake()
    poller.wake()
    poller.wake()
    expect(rounds.begun).toBe(1)
    first.open()
    await pass(0)
    expect(rounds.begun).toBe(2)
    await poller.stop()
  })

  test('does not shorten the pause after a failed round, whether it came during the round or after it', async () => {
    chance(0)
    const { poller, rounds } = pollerOf(Promise.reject(new Error('away')))
    poller.start()
    poller.wake()
    await pass(0)
    poller.wake()
    await pass(FIRST_RETRY_MS / 2 - 1)
    expect(rounds.begun).toBe(1)
    await pass(1)
    expect(rounds.begun).toBe(2)
    await poller.stop()
  })

  test('does not start a poller that is stopped', async () => {
    const { poller, rounds } = pollerOf()
    poller.wake()
    await pass(10 * POLL_MS)
    expect(rounds.begun).toBe(0)
    poller.start()
    await pass(0)
    await poller.stop()
    poller.wake()
    await pass(10 * POLL_MS)
    expect(rounds.begun).toBe(1)
  })
})

describe('start and stop', () => {
  test('a poller that is started twice runs once', async () => {
    const first = gate()
    const { poller, rounds } = pollerOf(first.opened)
    poller.start()
    poller.start()
    await pass(0)
    expect(rounds.begun).toBe(1)
    first.open()
    await poller.stop()
    expect(rounds.begun).toBe(1)
  })

  test.each(['idle', 'fail'] as const)('a stop ends the pause after a round (%s)', async (end) => {
    const { poller, rounds } = pollerOf(end)
    poller.start()
    await pass(0)
    await poller.stop()
    expect(vi.getTimerCount()).toBe(0)
    await pass(LONGEST_RETRY_MS)
    expect(rounds.begun).toBe(1)
  })

  test('a stop signals the round, waits for it, and lets no other begin, even if there is more to do', async () => {
    const first = gate()
    const { poller, rounds } = pollerOf(first.opened, 'more', 'more')
    poller.start()
    await pass(0)
    let stopped = false
    const stopping = poller.stop().then(() => (stopped = true))
    await pass(0)
    expect([stopped, rounds.signals[0]?.aborted]).toEqual([false, true])
    first.open()
    await stopping
    await pass(LONGEST_RETRY_MS)
    expect(rounds.begun).toBe(1)
  })

  test('a stop also waits for work that rounds have begun', async () => {
    const { poller, underWay } = pollerOf()
    const work = gate()
    underWay.add(work.opened)
    poller.start()
    await pass(0)
    let stopped = false
    const stopping = poller.stop().then(() => (stopped = true))
    await pass(0)
    expect(stopped).toBe(false)
    work.open()
    await stopping
  })

  test('a stop waits no longer than it was told, and reports that it gave up', async () => {
    const warnings = hear('pawl:warning')
    const { poller } = pollerOf(new Promise(() => {}))
    poller.start()
    await pass(0)
    let stopped = false
    const stopping = poller.stop({ timeoutMs: 50 }).then(() => (stopped = true))
    await pass(49)
    expect(stopped).toBe(false)
    await pass(1)
    await stopping
    expect(warnings).toEqual([
      { message: 'the reaper was stopped before everything that it had begun was done', error: null },
    ])
  })

  test('a round that fails after the stop is reported, and not repeated', async () => {
    const failed = hear('pawl:round_failed')
    const late = gate()
    const { poller, rounds } = pollerOf(
      late.opened.then(() => {
        throw new Error('too late')
      }),
    )
    poller.start()
    await pass(0)
    const stopping = poller.stop()
    late.open()
    await stopping
    await pass(LONGEST_RETRY_MS)
    expect([failed.length, rounds.begun]).toEqual([1, 1])
  })

  test('a poller can be started again, even while it is being stopped', async () => {
    const first = gate()
    const { poller, rounds } = pollerOf(first.opened)
    poller.start()
    await pass(0)
    const stopping = poller.stop()
    poller.start()
    await pass(0)
    expect(rounds.begun).toBe(2)
    first.open()
    await stopping
    // The end of that stop must not make it forget that it runs.
    poller.start()
    await pass(0)
    expect(rounds.begun).toBe(2)
    await pass(POLL_MS)
    expect(rounds.begun).toBeGreaterThan(2)
    await poller.stop()
    const { begun } = rounds
    await pass(10 * POLL_MS)
    expect(rounds.begun).toBe(begun)
    poller.start()
    await pass(0)
    expect(rounds.begun).toBe(begun + 1)
    await poller.stop()
  })

  test('stopping a poller that never ran ends at once, and wrong options are refused', async () => {
    const { poller } = pollerOf()
    await poller.stop()
    await expect(poller.stop({ timeoutMs: -1 })).rejects.toThrow('stop: timeoutMs is -1')
    await expect(poller.stop({ timeout: 1 } as never)).rejects.toThrow("stop: unknown option 'timeout'")
  })
})
