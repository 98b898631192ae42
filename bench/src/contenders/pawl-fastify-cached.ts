import { redisCache } from '@pawl/redis'
import { Redis } from 'ioredis'
import { startRedis } from '../run/start-redis.js'
import { pawlFastifyIn } from './pawl-fastify.js'

/** With a Redis of its own, as docs/caching.md advises, and everything else at its default. */
export const pawlFastifyCached = pawlFastifyIn(
  'bench_pawl_fastify_cached',
  'pawl-fastify-cached',
  'Pawl through Fastify, with a cache in Redis',
  async () => {
    const redis = await startRedis()
    const client = new Redis(redis.url, { enableAutoPipelining: true })
    // It tries again until the server has come up.
    client.on('error', () => {})
    await client.ping()
    return {
      cache: redisCache({ client, prefix: 'pawl-bench:' }),
      async close() {
        client.disconnect()
        await redis.stop()
      },
    }
  },
)
