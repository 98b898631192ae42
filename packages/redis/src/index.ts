export { redisCache } from './redis-cache.js'
export type { RedisCacheOptions } from './redis-cache.js'
export type { IoRedisClient, NodeRedisClient, RedisClient } from './redis-client.js'
