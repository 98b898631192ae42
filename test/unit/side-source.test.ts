import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { SideSource } from '../../packages/core/src/request/side-source.js'
import { hear } from '../support/signals.js'

let now = 1_000
beforeEach(() => void vi.spyOn(performance, 'now').mockImplementation(() => now))
afterEach(() => void vi.restoreAllMocks())

const OPTIONS = { timeoutMs: 5, restMs: 2_000, tooLate: 'too late', failed: 'failed' }
const told = async () => ({ type: 'told', told: 7 }) as const
const fails = () => Promise.reject(new Error('away'))

/** How long a source that fails is left alone, so many times in a row. */
async function restsOf(source: SideSource, count: number): Promise<number[]> {
  const rests: number[] = []
  while (rests.length < count) {
    const from = now
    const look = vi.fn(fails)
    for (; look.mock.calls.length === 0; now++) await source.ask(look)
    rests.push(now - 1 - from)
  }
  return rests
}

async function leftAlone(): Promise<SideSource> {
  const source = new SideSource(OPTIONS)
  for (let times = 0; times < 3; times++) await source.ask(fails)
  expect(source.isResting).toBe(true)
  return source
}

test('it is left alone for longer each time, up to a bound', async () => {
  const rests = await restsOf(await leftAlone(), 8)
  expect(rests.map((ms) => Math.round(ms / 10) * 10)).toEqual([50, 100, 200, 400, 800, 1_600, 2_000, 2_000])
})

test('many requests that meet one pause leave it alone once, for a moment', async () => {
  const source = new SideSource(OPTIONS)
  await Promise.all(Array.from({ length: 100 }, () => source.ask(fails)))
  now += 51
  expect(await source.ask(told)).toEqual({ told: 7, isBack: true })
  expect(await source.ask(told)).toEqual({ told: 7, isBack: false })
})

test('once it was of use, the next rest is short again', async () => {
  const source = await leftAlone()
  await restsOf(source, 5)
  now += 2_000
  expect(await source.ask(told)).toMatchObject({ isBack: true })
  for (let times = 0; times < 3; times++) await source.ask(fails)
  expect(await restsOf(source, 1)).toEqual([50])
})

test('one request at a time tries it again', async () => {
  const source = await leftAlone()
  now += 51
  const looks = vi.fn(fails)
  await Promise.all(Array.from({ length: 10 }, () => source.ask(looks)))
  expect(looks).toHaveBeenCalledOnce()
})

test('why it is left alone is said once a minute for the same reason, and at once for another', async () => {
  const warnings = hear('pawl:warning')
  const source = await leftAlone()
  for (let times = 0; times < 20; times++) {
    now += 51
    await source.ask(told)
    for (let misses = 0; misses < 3; misses++) await source.ask(fails)
  }
  expect(warnings.map(({ message }) => message)).toEqual(['failed'])
  now += 2_000
  await source.ask(async () => ({ type: 'unfit', why: 'behind', error: null }))
  expect(warnings.map(({ message }) => message)).toEqual(['failed', 'behind'])
  now += 60_000
  await source.ask(async () => ({ type: 'unfit', why: 'behind', error: null }))
  expect(warnings).toHaveLength(3)
})
