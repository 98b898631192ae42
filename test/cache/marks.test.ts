import { type Outcome, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CacheTrial, drawn } from '../support/cache-trial.js'
import { MemoryCache } from '../support/memory-cache.js'
import { pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'

let trial: CacheTrial
let cache: MemoryCache
beforeEach(async () => {
  trial = await CacheTrial.create()
  cache = new MemoryCache()
})
afterEach(async () => {
  await finishRide()
  await trial.drop()
})

/** Ends the ride that is held, if there is one: it needs the tables. */
let finishRide: () => Promise<unknown> = () => Promise.resolve()

/** How long `in_flight` may come from the cache. */
const MARK_MS = 1_000

describe('a key that is held', () => {
  test('is in flight from the cache, once PostgreSQL has said so', async () => {
    const { duplicate, steps } = await heldRide()
    const fromPrimary = await duplicate()
    expect(fromPrimary).toMatchObject({ type: 'in_flight', retryAfterMs: 1_000, fencedOff: false })
    expect(steps.splice(0)).not.toEqual([])
    const fromCache = await duplicate()
    expect(fromCache).toMatchObject({ type: 'in_flight', retryAfterMs: 1_000, fencedOff: false })
    expect(steps).toEqual([])
    expect(leftMs(fromCache)).toBeLessThanOrEqual(leftMs(fromPrimary))
  })

  test('is asked for again after a second, whatever the cache still has', async () => {
    const { duplicate, steps } = await heldRide()
    await duplicate()
    const saidAt = performance.now()
    cache.before = () => void cache.values.set(last().name, last().value)
    steps.splice(0)
    while (steps.length === 0) expect(await duplicate()).toMatchObject({ type: 'in_flight' })
    // PostgreSQL said so a little earlier than we noticed.
    expect(performance.now() - saidAt).toBeLessThan(MARK_MS + 500)
  })

  test('is not in flight for longer than its lease', async () => {
    const { duplicate, steps, database } = await heldRide()
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '700 ms' WHERE key = $1`,
      [trial.key],
    )
    expect(await duplicate()).toMatchObject({ type: 'in_flight' })
    const ttls = cache.written.map(({ ttlMs }) => ttlMs).filter((ttlMs) => ttlMs <= MARK_MS)
    for (const ttlMs of ttls) expect(ttlMs).toBeLessThanOrEqual(700)
    steps.splice(0)
    let outcome: Outcome = await duplicate()
    while (outcome.type === 'in_flight') outcome = await duplicate()
    expect(outcome).toMatchObject({ type: 'completed' })
  })

  test('is a mismatch for another request, as PostgreSQL says', async () => {
    const { duplicate, engine, ride } = await heldRide()
    await duplicate()
    await duplicate()
    const { scope, key } = trial
    expect(await engine.execute(ride, { scope, key, input: 8 })).toEqual({
      type: 'mismatch',
      differs: 'request',
    })
  })

  test('is enqueued all the same', async () => {
    const { duplicate, engine, ride } = await heldRide()
    await duplicate()
    const { scope, key } = trial
    expect(await engine.enqueue(ride, { scope, key, input: 7 })).toMatchObject({
      type: 'enqueued',
      fresh: false,
    })
  })

  test('is replayed as soon as it has finished', async () => {
    const { duplicate, finish } = await heldRide()
    await duplicate()
    const first = await finish()
    expect(first).toMatchObject({ type: 'completed' })
    expect(await duplicate()).toMatchObject({
      type: 'replayed',
      response: (first as { response: unknown }).response,
    })
  })

  test('is replayed after a second at the latest, if the cache has lost that and kept the rest', async () => {
    const { duplicate, finish } = await heldRide()
    await duplicate()
    const mark = last()
    cache.before = () => void cache.values.set(mark.name, mark.value)
    await finish()
    const finishedAt = performance.now()
    for (;;) {
      const askedAt = performance.now()
      const outcome = await duplicate()
      if (outcome.type === 'replayed') break
      expect(outcome).toMatchObject({ type: 'in_flight' })
      // The answer may take its time on a busy machine.
      expect(askedAt - finishedAt).toBeLessThan(MARK_MS)
    }
  })

  test('does not overwrite a response that came first', async () => {
    const { duplicate, finish, otherEngine } = await heldRide()
    const { opened, open } = gate()
    cache.before = (command) => (command === 'set' ? opened : undefined)
    await duplicate()
    cache.before = () => undefined
    await finish()
    const { value } = last()
    open()
    await trial.warmUp(otherEngine)
    expect(cache.values.get(last().name)).toBeDefined()
    expect([...cache.values.values()]).toContain(value)
    expect(await duplicate()).toMatchObject({ type: 'replayed' })
  })
})

test('a key that was given back is run by the next request at once', async () => {
  let failures = 1
  const failing = pipeline<number>({ name: 'failing', version: 1 })
    .foreign('called', {
      call: async () => {
        entered.open()
        await go.opened
        return {}
      },
      settle: () => (failures-- > 0 ? retryLater(new Error('not now'), { afterMs: 0 }) : {}),
    })
    .finish(() => respond(201))
  const entered = gate()
  const go = gate()
  const { engine } = trial.engine({ cache, pipelines: [failing, drawn] })
  const { engine: other } = trial.engine({ cache, pipelines: [failing, drawn] })
  await trial.warmUp(other)
  await trial.warmUp(engine)
  const request = { scope: trial.scope, key: trial.key, input: 7 }
  const first = engine.execute(failing, request)
  await entered.opened
  expect(await other.execute(failing, request)).toMatchObject({ type: 'in_flight' })
  go.open()
  expect(await first).toMatchObject({ type: 'retry_later' })
  expect(cache.deleted).toHaveLength(1)
  expect(await other.execute(failing, request)).toMatchObject({ type: 'completed' })
})

const leftMs = (outcome: Outcome): number => (outcome as { readonly leaseLeftMs: number }).leaseLeftMs

const last = () => cache.written.at(-1) ?? { name: '', value: new Uint8Array(), ttlMs: 0 }

/** A request in the middle of its call, and another engine that is asked for the same. */
async function heldRide() {
  const { opened, open } = gate()
  const entered = gate()
  let calls = 0
  const ride = pipeline<number>({ name: 'held', version: 1 })
    .foreign('called', {
      call: async () => {
        entered.open()
        if (calls++ === 0) await opened
        return {}
      },
    })
    .finish(() => respond(201, { ended: true }))
  const pipelines = [ride, drawn]
  const { engine: holder } = trial.engine({ cache, pipelines })
  const { engine, steps } = trial.engine({ cache, pipelines })
  await trial.warmUp(holder)
  await trial.warmUp(engine)
  const request = { scope: trial.scope, key: trial.key, input: 7 }
  const first = holder.execute(ride, request)
  await entered.opened
  steps.splice(0)
  const finish = () => {
    open()
    return first
  }
  finishRide = finish
  return {
    ride,
    engine,
    otherEngine: holder,
    steps,
    database: trial.database,
    duplicate: () => engine.execute(ride, request),
    finish,
  }
}
