import { isIoRedis, type IoRedisClient, type NodeRedisClient, type RedisClient } from './redis-client.js'

/** The commands that the cache needs, whichever client sends them. */
export interface CacheCommands {
  /** Whether a command is sent at once. Otherwise the client would keep it until there is a connection, perhaps for ever. */
  readonly isReady: () => boolean
  /** The first so many bytes of a value; nothing where there is none. */
  readonly getStart: (key: string, bytes: number) => Promise<unknown>
  readonly set: (key: string, value: string, ttlMs: number, onlyIfAbsent: boolean) => Promise<unknown>
  readonly del: (key: string) => Promise<unknown>
}

export function commandsOf(client: RedisClient): CacheCommands {
  return isIoRedis(client) ? ofIoRedis(client) : ofNodeRedis(client)
}

function ofIoRedis(client: IoRedisClient): CacheCommands {
  const set = callOf(client, 'set')
  return {
    // A client with `lazyConnect` connects at its first command.
    isReady: () => client.status === 'ready' || client.status === 'wait',
    getStart: getStartWith(callOf(client, 'getrange')),
    set: (key, value, ttlMs, onlyIfAbsent) =>
      onlyIfAbsent ? set(key, value, 'PX', ttlMs, 'NX') : set(key, value, 'PX', ttlMs),
    del: callOf(client, 'del'),
  }
}

function ofNodeRedis(client: NodeRedisClient): CacheCommands {
  const set = callOf(client, 'set')
  return {
    // Clusters and pools have connections of their own, and say only whether they are open.
    isReady: () => client.isOpen && client.isReady !== false,
    getStart: getStartWith(callOf(client, 'getRange')),
    set: (key, value, ttlMs, onlyIfAbsent) =>
      set(key, value, { PX: ttlMs, ...(onlyIfAbsent && { NX: true }) }),
    del: callOf(client, 'del'),
  }
}

type Call = (...args: readonly unknown[]) => Promise<unknown>

/**
 * A GETRANGE: Redis keeps values of 512 MiB, which both clients would read as a whole. That is more than a string of JavaScript can
 * hold, and node-redis then gives every command the answer to the one before.
 */
const getStartWith =
  (getRange: Call): CacheCommands['getStart'] =>
  (key, bytes) =>
    getRange(key, 0, bytes - 1)

function callOf<Client extends RedisClient>(client: Client, name: keyof Client): Call {
  return (...args) => (client[name] as Call).apply(client, [...args])
}
