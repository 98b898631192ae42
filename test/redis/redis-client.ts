import { Redis } from 'ioredis'
import type { RedisClient } from '@pawl/redis'
import { createClient } from 'redis'
import { onTestFinished } from 'vitest'

/** What the tests of both libraries have in common. */
export interface OpenClient {
  readonly client: RedisClient
  /** Resolves when it has a connection. */
  readonly ready: () => Promise<void>
}

/** The clients as their libraries make them, with all defaults. The end of the test closes them. */
export const CLIENTS = {
  ioredis: (url: string): OpenClient => {
    const client = new Redis(url)
    client.on('error', () => {})
    onTestFinished(() => client.disconnect())
    return {
      client,
      ready: async () => {
        await client.ping()
      },
    }
  },
  'node-redis': (url: string): OpenClient => {
    const client = createClient({ url })
    client.on('error', () => {})
    const connected = client.connect()
    connected.catch(() => {})
    onTestFinished(() => client.destroy())
    return {
      client,
      ready: async () => {
        await connected
        await client.ping()
      },
    }
  },
} satisfies Record<string, (url: string) => OpenClient>

export type ClientName = keyof typeof CLIENTS

export const CLIENT_NAMES = Object.keys(CLIENTS) as ClientName[]
