/** A method of a client. Each client declares its own parameters. */
type Command = (...given: never[]) => Promise<unknown>

interface Commands {
  readonly set: Command
  readonly del: Command
}

/** A client of `ioredis`: `Redis` or `Cluster`. */
export interface IoRedisClient extends Commands {
  readonly status: string
  readonly getrange: Command
}

/** A client of `redis` (node-redis) from version 4 on: of one server, a cluster, a pool or sentinels. */
export interface NodeRedisClient extends Commands {
  readonly isOpen: boolean
  readonly isReady?: boolean
  readonly getRange: Command
}

/** What `redisCache` works with. Neither library is needed at run time but the one that the client is from. */
export type RedisClient = IoRedisClient | NodeRedisClient

export function isIoRedis(client: RedisClient): client is IoRedisClient {
  return 'getrange' in client
}
