import { randomUUID } from 'node:crypto'
import { createOperator } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CacheTrial } from '../support/cache-trial.js'
import { MemoryCache } from '../support/memory-cache.js'
import { gate } from '../support/signals.js'
import { onlyDeep } from '../support/amounts.js'

let trial: CacheTrial
let cache: MemoryCache
beforeEach(async () => {
  trial = await CacheTrial.create()
  cache = new MemoryCache()
})
afterEach(() => trial.drop())

const because = { actor: 'anna@ops-1', reason: 'case 4711' }

/** How long an engine goes by what it last heard of the epoch. */
const EPOCH_MS = 1_000

const forget = () => {
  const operator = createOperator({ pool: trial.database.pool(), schema: trial.database.schema })
  return operator.forget({ scope: trial.scope, key: trial.key }, because)
}
const epochs = () =>
  trial.database.rows<{ epoch: string; cached: boolean }>('SELECT epoch, cached FROM pawl.cache_epoch')

describe('a key that was forgotten', () => {
  onlyDeep(() => {
    test('is not replayed by any engine once that is reported, whatever the cache has', async () => {
      const { response } = await trial.finished()
      const { engine } = trial.engine({ cache })
      await trial.replayedFrom(engine, 'cache')
      const old = new Map(cache.values)
      cache.before = () => {
        for (const [name, value] of old) if (!cache.values.has(name)) cache.values.set(name, value)
      }
      const before = await epochs()
      // The engine is at work all the time.
      const forgetting = forget()
      const reported = new AbortController()
      void forgetting.finally(() => reported.abort())
      const other = randomUUID()
      while (!reported.signal.aborted) await trial.execute(engine, other)
      expect(await forgetting).toMatchObject({ type: 'done' })
      expect(await epochs()).not.toEqual(before)
      const again = await trial.execute(engine)
      expect(again).toMatchObject({ type: 'completed' })
      expect(again).not.toMatchObject({ response })
    })
  })

  test('is reported at once where no engine has a cache', async () => {
    const tookMs: number[] = []
    // The machine may be busy for one of them.
    while (tookMs.length < 5 && Math.min(...tookMs) >= EPOCH_MS) {
      await trial.finished()
      const startedAt = performance.now()
      expect(await forget()).toMatchObject({ type: 'done' })
      tookMs.push(performance.now() - startedAt)
    }
    expect(Math.min(...tookMs)).toBeLessThan(EPOCH_MS)
    expect(await epochs()).toMatchObject([{ cached: false }])
  })

  test('stays as it is, and so does the cache, where forgetting is refused', async () => {
    const { engine } = trial.engine({ cache })
    await trial.warmUp(engine)
    const before = await epochs()
    expect(before).toMatchObject([{ cached: true }])
    expect(await forget()).toEqual({ type: 'not_found', by: null })
    expect(await epochs()).toEqual(before)
  })

  test('is not cached again by an engine that has read it before', async () => {
    await trial.finished()
    const { opened, open } = gate()
    const reached = gate()
    let stops = false
    const { engine } = trial.engine({ cache }, ({ step, when }) => {
      if (!stops || step !== 'find_key' || when !== 'after') return
      stops = false
      reached.open()
      return opened
    })
    await trial.warmUp(engine)
    stops = true
    const reading = trial.execute(engine)
    await reached.opened
    await forget()
    // It hears of the new epoch before it caches what it has read.
    await trial.warmUp(engine)
    open()
    expect(await reading).toMatchObject({ type: 'replayed' })
    expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
  })
})

test('a key that was erased is not replayed by any engine, and its copy is dropped', async () => {
  const { response } = await trial.finished()
  const { engine } = trial.engine({ cache })
  const { engine: other } = trial.engine({ cache })
  await trial.replayedFrom(other, 'cache')
  await trial.replayedFrom(engine, 'cache')
  const old = new Map(cache.values)
  await engine.erase({ scope: trial.scope, ...because })
  for (const name of old.keys()) expect(cache.deleted).toContain(name)
  for (const [name, value] of old) cache.values.set(name, value)
  for (const each of [other, engine]) {
    const again = await trial.execute(each)
    expect(again).not.toMatchObject({ response })
  }
})
