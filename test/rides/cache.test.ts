import { expect, test } from 'vitest'
import { describeOnOwnRedis, RedisServer } from '../support/redis-server.js'
import { askForRide, expectBalancedBooks, newKey } from '../support/rides-client.js'
import { Rides, until } from '../support/rides-processes.js'

const hits = async (redis: RedisServer): Promise<number> =>
  Number(/keyspace_hits:(\d+)/.exec(await redis.ask('INFO', 'stats'))?.[1])

describeOnOwnRedis('the rides with REDIS_URL', () => {
  test('are replayed from there, and without it when it is gone', async () => {
    const redis = await RedisServer.start()
    const rides = await Rides.start()
    try {
      const api = await rides.startApi({ env: { REDIS_URL: redis.url } })
      const key = newKey()
      const first = await askForRide(api.url, key)
      expect(first.status).toBe(201)
      const expectSame = async () => {
        const { status, body } = await askForRide(api.url, key)
        expect({ status, body: String(body) }).toEqual({ status: 201, body: String(first.body) })
      }
      await until('a hit in Redis', async () => {
        await expectSame()
        return (await hits(redis)) > 0
      })
      // Another rider's request under the same key is another request.
      expect((await askForRide(api.url, key, { token: 'rider-2' })).status).toBe(201)
      await redis.kill()
      for (let times = 0; times < 5; times++) await expectSame()
      expect((await askForRide(api.url, newKey())).status).toBe(201)
      await until('a word about it', () => api.errors.some((line) => line.startsWith('Redis: ')))
      await expectBalancedBooks(rides)
      api.signal('SIGTERM')
      expect(await api.ended).toBe('0')
    } finally {
      await rides.end()
      await redis.stop()
    }
  })
})

test('REDIS_URL is an address of a Redis, or the process says so without showing it', async () => {
  const { readConfig } = (await import(
    new URL('../../examples/rides/src/config.ts', import.meta.url).href
  )) as { readonly readConfig: (env: object) => { readonly redisUrl: string | null } }
  const base = { DATABASE_URL: 'postgresql://x/y', STRIPE_API_KEY: 'sk_test' }
  expect(readConfig(base).redisUrl).toBeNull()
  expect(readConfig({ ...base, REDIS_URL: 'rediss://:secret@redis:6380/1' }).redisUrl).toBe(
    'rediss://:secret@redis:6380/1',
  )
  for (const wrong of ['redis', 'http://:secret@redis'])
    expect(() => readConfig({ ...base, REDIS_URL: wrong })).toThrow(/^REDIS_URL is not usable(?!.*secret)/)
})
