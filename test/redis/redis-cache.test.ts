import { randomUUID } from 'node:crypto'
import { redisCache } from '@pawl/redis'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { CacheTrial } from '../support/cache-trial.js'
import { describeOnOwnRedis, describeOnRedis, RedisServer, SharedRedis } from '../support/redis-server.js'
import { hear } from '../support/signals.js'
import { CLIENT_NAMES, CLIENTS, type ClientName } from './redis-client.js'

let server: SharedRedis
let trial: CacheTrial

/** Longer than by default: the machine may be busy. */
const TIMEOUT_MS = 30

/** What a request may wait for a cache that is of no use, and what a busy machine adds. */
const SLOW_MS = TIMEOUT_MS + 500

beforeEach(async () => {
  trial = await CacheTrial.create()
})
afterEach(() => trial.drop())

describeOnRedis('a cache in Redis', () => {
  beforeAll(async () => {
    server = await SharedRedis.open()
  })
  afterEach(() => server.empty())
  afterAll(() => server.close())

  describe.each(CLIENT_NAMES)('with %s', (name) => {
    test('has finished keys, under names that begin with the prefix and expire', async () => {
      const { response } = await trial.finished()
      const engine = await engineOn(name)
      expect(await trial.replayedFrom(engine, 'cache')).toMatchObject({ response })
      const [only = '', ...more] = await server.names()
      expect(more).toEqual([])
      const leftMs = Number(await server.ask('PTTL', only))
      expect(leftMs).toBeGreaterThan(0)
      expect(leftMs).toBeLessThanOrEqual(3_600_000)
    })

    test('carries every byte of a response', async () => {
      const cache = redisCache({ client: (await opened(name)).client, prefix: server.prefix })
      const value = Buffer.from(Array.from({ length: 512 }, (_, at) => at % 256))
      const key = randomUUID()
      await cache.set(key, value, { ttlMs: 60_000, onlyIfAbsent: true })
      await cache.set(key, Buffer.from('another'), { ttlMs: 60_000, onlyIfAbsent: true })
      expect(Buffer.from((await cache.get(key)) ?? [])).toEqual(value)
      await cache.set(key, Buffer.from('another'), { ttlMs: 60_000, onlyIfAbsent: false })
      expect(Buffer.from((await cache.get(key)) ?? [])).toEqual(Buffer.from('another'))
      await cache.delete(key)
      expect(await cache.get(key)).toBeNull()
    })

    test('may be emptied at any time', async () => {
      const { response } = await trial.finished()
      const engine = await engineOn(name)
      await trial.replayedFrom(engine, 'cache')
      await server.empty()
      expect(await trial.execution(engine)).toMatchObject({ outcome: { response }, source: 'primary' })
      expect(await trial.replayedFrom(engine, 'cache')).toMatchObject({ response })
    })

    test('may hold anything under the names of keys', async () => {
      const { response } = await trial.finished()
      const engine = await engineOn(name)
      await trial.replayedFrom(engine, 'cache')
      const names = await server.names()
      const [real = ''] = await Promise.all(names.map((each) => server.ask('GET', each)))
      const garbage = [
        '',
        '{}',
        real.slice(0, -1),
        `${real}x`,
        `x${real.slice(1)}`,
        real.replaceAll('2', '3'),
      ]
      for (const value of garbage) {
        for (const each of names) await server.ask('SET', each, value)
        expect(await trial.execution(engine)).toMatchObject({ outcome: { response }, source: 'primary' })
      }
      for (const each of names) await server.ask('DEL', each)
      for (const each of names) await server.ask('LPUSH', each, 'a list')
      expect(await trial.execution(engine)).toMatchObject({ outcome: { response }, source: 'primary' })
    })
  })
})

describeOnOwnRedis('a Redis', () => {
  describe.each(CLIENT_NAMES)('with %s', (name) => {
    test('may hold values that no client could read', async () => {
      const own = await RedisServer.start()
      onTestFinished(() => own.stop())
      const { response } = await trial.finished()
      const engine = await engineOn(name, own)
      await trial.replayedFrom(engine, 'cache')
      const names = (await own.ask('KEYS', 'pawl:*')).split(',')
      for (const each of names) await own.ask('SETRANGE', each, String(HUGE_BYTES), 'x')
      const before = await sentBytes(own)
      expect(await trial.execution(engine)).toMatchObject({ outcome: { response }, source: 'primary' })
      expect(await sentBytes(own)).toBeLessThan(before + HUGE_BYTES / 8)
      expect(await trial.replayedFrom(engine, 'cache')).toMatchObject({ response })
    })

    test('may be full, and evict what it likes', async () => {
      const full = await RedisServer.start('--maxmemory', '2mb', '--maxmemory-policy', 'allkeys-random')
      onTestFinished(() => full.stop())
      const engine = await engineOn(name, full)
      const responses = new Map<string, unknown>()
      for (let nth = 0; nth < 50; nth++) {
        await full.ask('SET', `filler:${nth}`, 'x'.repeat(100_000))
        const key = randomUUID()
        const outcome = await trial.execute(engine, key)
        expect(outcome).toMatchObject({ type: 'completed' })
        responses.set(key, (outcome as { response: unknown }).response)
      }
      for (const [key, response] of responses)
        expect(await trial.execute(engine, key)).toMatchObject({ type: 'replayed', response })
      expect(await full.ask('INFO', 'stats')).not.toContain('evicted_keys:0\r')
    })

    test('may be too full to take anything', async () => {
      const full = await RedisServer.start('--maxmemory', '1', '--maxmemory-policy', 'noeviction')
      onTestFinished(() => full.stop())
      const { response } = await trial.finished()
      const engine = await engineOn(name, full)
      for (let times = 0; times < 5; times++)
        expect(await trial.execution(engine)).toMatchObject({ outcome: { response }, source: 'primary' })
    })

    test.each(['kill', 'freeze'] as const)(
      'is left alone after a %s, and used again afterwards',
      async (how) => {
        const own = await RedisServer.start()
        onTestFinished(() => own.stop())
        const { response } = await trial.finished()
        const cache = redisCache({ client: (await opened(name, own)).client })
        const { engine } = trial.engine({ cache, cacheTimeoutMs: TIMEOUT_MS })
        await trial.replayedFrom(engine, 'cache')
        const warnings = hear('pawl:warning')
        await own[how]()
        const tookMs: number[] = []
        while (warnings.length === 0 || tookMs.length < 20) {
          const startedAt = performance.now()
          const { outcome } = await trial.execution(engine)
          tookMs.push(performance.now() - startedAt)
          expect(outcome).toMatchObject({ type: 'replayed', response })
        }
        // Other engines of this process may have something to say as well.
        expect(warnings.map(({ message }) => message).join('\n')).toContain(
          'Everything comes from PostgreSQL meanwhile',
        )
        expect(Math.max(...tookMs)).toBeLessThan(SLOW_MS)
        if (how === 'kill') await own.restart()
        else own.thaw()
        expect(await trial.replayedFrom(engine, 'cache')).toMatchObject({ response })
      },
    )

    test('does not answer from an old snapshot', async () => {
      const own = await RedisServer.start()
      onTestFinished(() => own.stop())
      const old = await trial.finished()
      const engine = await engineOn(name, own)
      await trial.replayedFrom(engine, 'cache')
      await own.save()
      await own.kill()
      await trial.database.rows('DELETE FROM pawl.idempotency_keys; DELETE FROM pawl.cache_epoch')
      await own.restart()
      expect(Number(await own.ask('DBSIZE'))).toBeGreaterThan(0)
      // Another process: it has known no epoch but the new one.
      const next = await engineOn(name, own)
      await trial.warmUp(next)
      const outcome = await trial.execute(next)
      expect(outcome).toMatchObject({ type: 'completed' })
      expect(outcome).not.toMatchObject({ response: old.response })
    })

    test('that is not there costs nothing and queues nothing', async () => {
      const gone = await RedisServer.start()
      await gone.stop()
      const { response } = await trial.finished()
      const { client } = CLIENTS[name](gone.url)
      const { engine } = trial.engine({ cache: redisCache({ client }) })
      for (let times = 0; times < 50; times++)
        expect(await trial.execution(engine)).toMatchObject({ outcome: { response }, source: 'primary' })
      if (client instanceof Redis) expect(Reflect.get(client, 'offlineQueue')).toHaveLength(0)
    })
  })
})

/** Redis keeps values up to sixteen times as large, which node-redis could not even survive. */
const HUGE_BYTES = 32 * 1024 * 1024

const sentBytes = async (of: RedisServer): Promise<number> =>
  Number(/total_net_output_bytes:(\d+)/.exec(await of.ask('INFO', 'stats'))?.[1])

/** `prefix`: where others may have values in it, too. */
interface Place {
  readonly url: string
  readonly prefix?: string
}

async function opened(name: ClientName, of: Place = server) {
  const { client, ready } = CLIENTS[name](of.url)
  await ready()
  return { client }
}

async function engineOn(name: ClientName, of: Place = server) {
  const { client } = await opened(name, of)
  const { prefix } = of
  const cache = redisCache(prefix === undefined ? { client } : { client, prefix })
  return trial.engine({ cache }).engine
}
