import { randomBytes, randomUUID } from 'node:crypto'
import { aesGcm, type Protection, respond, type StoredResponse } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { CacheTrial, drawn } from '../support/cache-trial.js'
import { MemoryCache } from '../support/memory-cache.js'
import { pipeline } from '../support/rides.js'
import { ServerClock } from '../support/server-clock.js'
import { gate, hear } from '../support/signals.js'

let trial: CacheTrial
let cache: MemoryCache
beforeEach(async () => {
  trial = await CacheTrial.create()
  cache = new MemoryCache()
})
afterEach(() => trial.drop())

/** How long an engine goes by what it last heard of the epoch, and what a busy machine adds. */
const EPOCH_MS = 1_000

const DAY_MS = 25 * 3_600_000

const DELETED = 'DELETE FROM pawl.idempotency_keys'

describe('a finished key', () => {
  test('is replayed from the cache as from PostgreSQL, which is asked for nothing', async () => {
    const { response, expiresAt } = await trial.finished()
    const { engine, steps } = trial.engine({ cache })
    const fromPrimary = await trial.execute(engine)
    const fromCache = await trial.replayedFrom(engine, 'cache')
    expect(fromCache).toEqual(fromPrimary)
    expect(fromCache).toMatchObject({ response, expiresAt })
    steps.splice(0)
    await trial.execute(engine)
    expect(steps).toEqual([])
  })

  test('is cached by whoever finished it, and replayed by another engine', async () => {
    const { engine: first } = trial.engine({ cache })
    await trial.warmUp(first)
    const { response } = (await trial.execute(first)) as { response: unknown }
    const { engine: second, steps } = trial.engine({ cache })
    await trial.warmUp(second)
    steps.splice(0)
    expect(await trial.execution(second)).toMatchObject({
      outcome: { type: 'replayed', response },
      source: 'cache',
    })
    expect(steps).toEqual([])
  })

  test('is replayed by enqueue', async () => {
    await trial.finished()
    const { engine } = trial.engine({ cache })
    await trial.replayedFrom(engine, 'cache')
    const replays = hear('pawl:replayed')
    await engine.enqueue(drawn, { scope: trial.scope, key: trial.key, input: 7 })
    expect(replays).toMatchObject([{ from: 'cache' }])
  })

  test('is a mismatch for another request, another pipeline and another kind, as PostgreSQL says', async () => {
    await trial.finished()
    const another = pipeline<number>({ name: 'another', version: 1 }).finish(() => respond(200))
    const { engine } = trial.engine({ cache, pipelines: [drawn, another] })
    await trial.replayedFrom(engine, 'cache')
    const { scope, key } = trial
    expect(await engine.execute(drawn, { scope, key, input: 8 })).toEqual({
      type: 'mismatch',
      differs: 'request',
    })
    expect(await engine.execute(another, { scope, key, input: 7 })).toEqual({
      type: 'mismatch',
      differs: 'pipeline',
    })
    expect(await engine.execute(drawn, { scope: 'somebody-else', key, input: 7 })).toMatchObject({
      type: 'completed',
    })
  })

  test('is not replayed to another namespace, schema or scope that shares the cache', async () => {
    await trial.finished()
    const { engine } = trial.engine({ cache })
    await trial.replayedFrom(engine, 'cache')
    const neighbour = await CacheTrial.create()
    try {
      const other = neighbour.engine({ cache }).engine
      await neighbour.warmUp(other)
      const { scope, key } = trial
      expect(await other.execute(drawn, { scope, key, input: 7 })).toMatchObject({ type: 'completed' })
      await trial.replayedFrom(engine, 'cache')
    } finally {
      await neighbour.drop()
    }
  })

  test('keeps neither its scope, nor its key, nor its name in clear', async () => {
    await trial.finished()
    const { engine } = trial.engine({ cache })
    await trial.replayedFrom(engine, 'cache')
    const seen = cache.written.map(({ name, value }) => name + Buffer.from(value).toString('latin1')).join('')
    expect(seen).not.toContain(trial.scope)
    expect(seen).not.toContain(trial.key)
  })
})

test('with protect, a response is sealed in the cache, and replayed by whoever has the key', async () => {
  const protect = aesGcm({ keys: { k1: randomBytes(32) }, current: 'k1' })
  const { engine } = trial.engine({ cache, protect })
  const first = (await trial.execute(engine)) as { response: StoredResponse }
  expect(await trial.replayedFrom(engine, 'cache')).toMatchObject({ response: first.response })
  const seen = cache.written.map(({ value }) => Buffer.from(value).toString('latin1')).join('')
  const { number } = JSON.parse(first.response.body.toString()) as { number: string }
  expect(seen).not.toContain(number)
  expect(seen).not.toContain('/drawn')
  const { engine: other } = trial.engine({
    cache,
    protect: aesGcm({ keys: { k2: randomBytes(32) }, current: 'k2' }),
  })
  await trial.warmUp(other)
  expect(await trial.execute(other)).toMatchObject({ type: 'refused' })
})

describe('what is written to the cache', () => {
  test('may fail to be sealed: the request has its answer', async () => {
    const codec = aesGcm({ keys: { k1: randomBytes(32) }, current: 'k1' })
    let isBroken = false
    const protect: Protection = {
      seal: (plain, at) => {
        if (isBroken && at.column === 'response_body')
          throw new Error('the device that has the key does not answer')
        return codec.seal(plain, at)
      },
      open: (sealed, at) => codec.open(sealed, at),
      fingerprintSecret: (keyId) => codec.fingerprintSecret(keyId),
    }
    const { engine } = trial.engine({ cache, protect })
    await trial.execute(engine)
    isBroken = true
    // Until the epoch is known, nothing is cached.
    cache.looks.splice(0)
    while (cache.looks.length === 0) expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
    expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
  })

  test('may be refused for ever: somebody is told, once', async () => {
    const { engine } = trial.engine({ cache })
    await trial.warmUp(engine)
    const warnings = hear('pawl:warning')
    cache.before = (command) => {
      if (command === 'set') throw new Error("READONLY You can't write against a read only replica.")
    }
    for (let times = 0; times < 25; times++) await trial.execute(engine, randomUUID())
    expect(warnings).toMatchObject([{ message: expect.stringContaining('takes no values') as string }])
  })

  test('comes after the COMMIT', async () => {
    const { engine } = trial.engine({ cache })
    await trial.warmUp(engine)
    cache.written.splice(0)
    const statuses: unknown[] = []
    cache.before = async (command) => {
      if (command === 'set')
        statuses.push(
          ...(await trial.database.rows(`SELECT status FROM pawl.idempotency_keys WHERE key = $1`, [
            trial.key,
          ])),
        )
    }
    await trial.execute(engine)
    await trial.replayedFrom(engine, 'cache')
    expect(statuses).toEqual([{ status: 'finished' }])
  })

  test('leaves the cache before its row may be deleted', async () => {
    const { engine } = trial.engine({ cache, defaults: { retentionMs: 60_000 } })
    await trial.warmUp(engine)
    for (const { ttlMs } of cache.written) expect(ttlMs).toBeLessThanOrEqual(55_000)
  })

  test('is never waited for', async () => {
    const { engine } = trial.engine({ cache })
    await trial.finished()
    await trial.replayedFrom(engine, 'cache')
    const { opened, open } = gate()
    cache.before = (command) => (command === 'set' ? opened : undefined)
    expect(await trial.execute(engine, randomUUID())).toMatchObject({ type: 'completed' })
    open()
  })
})

describe('a key that was deleted by hand, and the epoch with it,', () => {
  test('is replayed for no longer than a second by an engine that has been at work', async () => {
    const { response } = await trial.finished()
    const { engine } = trial.engine({ cache })
    await trial.replayedFrom(engine, 'cache')
    await trial.database.rows(`${DELETED}; DELETE FROM pawl.cache_epoch`)
    const deletedAt = performance.now()
    for (;;) {
      const askedAt = performance.now()
      const outcome = await trial.execute(engine)
      if (outcome.type === 'completed') {
        expect(outcome.response).not.toEqual(response)
        break
      }
      expect(outcome).toMatchObject({ type: 'replayed', response })
      expect(askedAt - deletedAt).toBeLessThan(EPOCH_MS)
    }
  })

  test('is not answered from values that the cache has again', async () => {
    await trial.finished()
    const { engine } = trial.engine({ cache })
    await trial.replayedFrom(engine, 'cache')
    const old = new Map(cache.values)
    await trial.database.rows(`${DELETED}; DELETE FROM pawl.cache_epoch`)
    const { engine: next } = trial.engine({ cache })
    await trial.warmUp(next)
    for (const [name, value] of old) cache.values.set(name, value)
    expect(await trial.execute(next)).toMatchObject({ type: 'completed' })
  })
})

test('what is cached is of no use to tables that were restored from a backup, with the epoch in it', async () => {
  const { engine } = trial.engine({ cache })
  await trial.warmUp(engine)
  const [epoch] = await trial.database.rows<Record<string, unknown>>('SELECT * FROM pawl.cache_epoch')
  const lost = await trial.execute(engine)
  await trial.replayedFrom(engine, 'cache')
  await trial.database.rows(`${DELETED}; DELETE FROM pawl.cache_epoch`)
  await trial.database.rows(
    'INSERT INTO pawl.cache_epoch SELECT * FROM json_populate_record(NULL::pawl.cache_epoch, $1)',
    [JSON.stringify(epoch)],
  )
  expect(await trial.database.rows('SELECT * FROM pawl.cache_epoch')).toEqual([epoch])
  const { engine: next } = trial.engine({ cache })
  await trial.warmUp(next)
  const again = await trial.execute(next)
  expect(again).toMatchObject({ type: 'completed' })
  expect(again).not.toMatchObject({ response: (lost as { response: unknown }).response })
})

test('the wait for a connection does not make the epoch older than it is', async () => {
  await trial.finished()
  await trial.replayedFrom(trial.engine({ cache }).engine, 'cache')
  const pool = trial.database.pool({ max: 1 })
  const { engine } = trial.engine({ cache, pool })
  const onlyClient = await pool.connect()
  const first = trial.execution(engine)
  // It asks for the key, and for the epoch.
  while (pool.waitingCount < 2) await new Promise(setImmediate)
  const now = Date.now.bind(Date)
  vi.spyOn(Date, 'now').mockImplementation(() => now() + 5 * EPOCH_MS)
  onTestFinished(() => void vi.restoreAllMocks())
  onlyClient.release()
  expect(await first).toMatchObject({ source: 'primary' })
  expect(await trial.execution(engine)).toMatchObject({ source: 'cache' })
})

test('while PostgreSQL cannot be asked for the epoch, the cache answers for a second at most', async () => {
  await trial.finished()
  const pool = trial.database.pool({ max: 1 })
  const { engine } = trial.engine({ cache, pool, acquireTimeoutMs: 1_000 })
  await trial.replayedFrom(engine, 'cache')
  const onlyClient = await pool.connect()
  const heldAt = performance.now()
  let askedAt = heldAt
  let outcome = await trial.execute(engine)
  while (outcome.type === 'replayed') {
    if (askedAt - heldAt >= EPOCH_MS) break
    askedAt = performance.now()
    outcome = await trial.execute(engine)
  }
  onlyClient.release()
  expect(outcome).toMatchObject({ type: 'unavailable' })
})

test('nothing that was cached before a failover is used after it', async () => {
  const clock = new ServerClock()
  const { engine } = trial.engine({ cache, pool: trial.database.pool({ Client: clock.Client }) })
  await trial.finished()
  await trial.replayedFrom(engine, 'cache')
  clock.failOver(0)
  const heardAt = performance.now()
  for (;;) {
    const askedAt = performance.now()
    if ((await trial.execution(engine)).source !== 'cache') break
    // The answer may take its time on a busy machine.
    expect(askedAt - heardAt).toBeLessThan(EPOCH_MS)
  }
  // What it has cached since was written under the new server.
  expect(await trial.replayedFrom(engine, 'cache')).toMatchObject({ type: 'replayed' })
  expect(cache.values.size).toBe(1)
})

describe('a key that has expired', () => {
  test('by the clock of PostgreSQL is not replayed from a cache that never forgets', async () => {
    const clock = new ServerClock()
    const pool = trial.database.pool({ Client: clock.Client })
    const { engine } = trial.engine({ cache, pool })
    await trial.finished()
    await trial.replayedFrom(engine, 'cache')
    clock.jump(DAY_MS)
    // An engine hears of the jump together with the epoch.
    for (;;) {
      const { outcome, source } = await trial.execution(engine)
      expect(outcome).toMatchObject({ type: 'replayed' })
      if (source === 'primary') break
    }
    expect(await trial.execution(engine)).toMatchObject({ source: 'primary' })
  })

  test('soon is not cached', async () => {
    const { engine } = trial.engine({ cache, defaults: { retentionMs: 4_000 } })
    await trial.finished()
    await trial.replayedFrom(engine, 'cache')
    cache.written.splice(0)
    expect(await trial.execute(engine, randomUUID())).toMatchObject({ type: 'completed' })
    expect(cache.written).toEqual([])
  })
})
