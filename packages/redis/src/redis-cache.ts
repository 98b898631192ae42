import type { ReplayCache } from '@pawl/core'
import { checkFunction, checkKnownOptions, invalidOption, type OptionOwner } from '@pawl/core/internal'
import { commandsOf } from './commands.js'
import type { RedisClient } from './redis-client.js'

/** What the cache is made of. */
export interface RedisCacheOptions {
  /** A client of `ioredis` or `redis`. Pawl neither connects nor closes it. */
  readonly client: RedisClient
  /** What the names of all values begin with. Default `pawl:`. */
  readonly prefix?: string
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'redisCache' }

/** Bytes as text of the same length, which every client and every Redis can carry. */
const TEXT = 'latin1'

/** Several times what an engine caches. Nothing longer is written, and of anything longer only the start is read. */
const MAX_VALUE_BYTES = 512 * 1024

/**
 * A cache in Redis for `createEngine`: an engine looks there before it asks PostgreSQL. Without Redis, everything works as before.
 *
 * @example
 * const engine = createEngine({ pool, pipelines, cache: redisCache({ client: new Redis(process.env.REDIS_URL) }) })
 */
export function redisCache(options: RedisCacheOptions): ReplayCache {
  const { client, prefix = 'pawl:' } = checked(options)
  const commands = commandsOf(client)
  const whenReady = (): void => {
    if (!commands.isReady()) throw new Error('The Redis client has no connection.')
  }
  return {
    async get(name) {
      whenReady()
      const value = await commands.getStart(prefix + name, MAX_VALUE_BYTES)
      // The client of an application may be set to return bytes.
      const text = value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : value
      return typeof text === 'string' && text !== '' ? Buffer.from(text, TEXT) : null
    },
    async set(name, value, { ttlMs, onlyIfAbsent }) {
      whenReady()
      const text = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString(TEXT)
      if (Buffer.byteLength(text) <= MAX_VALUE_BYTES)
        await commands.set(prefix + name, text, ttlMs, onlyIfAbsent)
    },
    async delete(name) {
      whenReady()
      await commands.del(prefix + name)
    },
  }
}

function checked(options: RedisCacheOptions): RedisCacheOptions {
  checkKnownOptions(OWNER, options, ['client', 'prefix'])
  const { client, prefix } = options
  if (!isClient(client)) throw invalidOption(OWNER, 'client', client, 'a client of ioredis or redis')
  for (const command of ['set', 'del'] as const) checkFunction(OWNER, `client.${command}`, client[command])
  if (prefix !== undefined && typeof prefix !== 'string')
    throw invalidOption(OWNER, 'prefix', prefix, 'a string')
  return options
}

function isClient(client: unknown): boolean {
  if (typeof client !== 'object' || client === null) return false
  const { getrange, status, getRange, isOpen } = client as Record<string, unknown>
  return (
    (typeof getrange === 'function' && typeof status === 'string') ||
    (typeof getRange === 'function' && typeof isOpen === 'boolean')
  )
}
