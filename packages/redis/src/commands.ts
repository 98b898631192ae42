import { isIoRedis, type IoRedisClient, type NodeRedisClient, type RedisClient } from './redis-client.js'

/** The commands that the cache needs, whichever client sends them. */
export interface CacheCommands {
  /** Whether a command is sent at once. Otherwise the client would keep it until there is a connection, perhaps for ever. */
  readonly isReady: () => boolean
  readonly get: (key: string) => Promise<unknown>
  readonly set: (key: string, value: string, ttlMs: number, onlyIfAbsent: boolean) => Promise<unknown>
  readonly del: (key: string) => Promise<unknown>
}

export function commandsOf(client: RedisClient): CacheCommands {
  return isIoRedis(client) ? ofIoRedis(client) : ofNodeRedis(client)
}

type Call = (...args: readonly unknown[]) => Promise<unknown>

function ofIoRedis(client: IoRedisClient): CacheCommands {
  const { get, set, del } = methodsOf(client)
  return {
    // A client with `lazyConnect` connects at its first command.
    isReady: () => client.status === 'ready' || client.status === 'wait',
    get: (key) => get(key),
    set: (key, value, ttlMs, onlyIfAbsent) =>
      onlyIfAbsent ? set(key, value, 'PX', ttlMs, 'NX') : set(key, value, 'PX', ttlMs),
    del: (key) => del(key),
  }
}

function ofNodeRedis(client: NodeRedisClient): CacheCommands {
  const { get, set, del } = methodsOf(client)
  return {
    // Clusters and pools have connections of their own, and say only whether they are open.
    isReady: () => client.isOpen && client.isReady !== false,
    get: (key) => get(key),
    set: (key, value, ttlMs, onlyIfAbsent) =>
      set(key, value, { PX: ttlMs, ...(onlyIfAbsent && { NX: true }) }),
    del: (key) => del(key),
  }
}

function methodsOf(client: RedisClient): Record<'get' | 'set' | 'del', Call> {
  const call =
    (name: 'get' | 'set' | 'del'): Call =>
    (...args) =>
      (client[name] as unknown as Call).apply(client, [...args])
  return { get: call('get'), set: call('set'), del: call('del') }
}
