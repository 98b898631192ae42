import type { ReplayCache } from '@pawl/core'

/** A cache of answers, for as long as the process runs. */
interface OpenCache {
  readonly cache: ReplayCache
  readonly close: () => void
}

/** Opens the cache in a Redis. What it needs is loaded only then. Nobody waits for a Redis that is away. */
export async function openCache(redisUrl: string): Promise<OpenCache> {
  const [{ redisCache }, { Redis }] = await Promise.all([import('@pawl/redis'), import('ioredis')])
  const client = new Redis(redisUrl, { enableAutoPipelining: true })
  let said = ''
  // It tries to connect again and again, and fails with the same words.
  client.on('error', ({ message }) => {
    if (message !== said) console.error(`Redis: ${message}`)
    said = message
  })
  client.on('ready', () => {
    said = ''
  })
  return { cache: redisCache({ client, prefix: 'rides:' }), close: () => client.disconnect() }
}
