import type { IncomingHttpHeaders } from 'node:http'
import fastifyPawlConsole, { type ConsoleOptions, type ConsoleUser } from '@pawl/console'
import Fastify, { type FastifyInstance } from 'fastify'
import type { TestDatabase } from '../support/test-database.js'
import { ConsoleClient } from './console-client.js'

/** A console that listens, mounted behind an application's authentication. */
export interface TestConsole {
  readonly app: FastifyInstance
  /** The address of the application. */
  readonly url: string
  /** That of the console. */
  readonly origin: string
  /** What the application logged as an error. */
  readonly errors: string[]
  /** A browser of somebody; `anna` may do everything, `ben` may only look, and nobody else is known. */
  as(name: string): ConsoleClient
  close(): Promise<void>
}

export const USERS: Readonly<Record<string, ConsoleUser>> = {
  anna: { actor: 'anna@example.com', canChange: true },
  berta: { actor: 'berta@example.com', canChange: true },
  ben: { actor: 'ben@example.com', canChange: false },
}

/** Starts an application with a console at `/ops/pawl`. */
export async function consoleOn(
  database: TestDatabase,
  options: Partial<ConsoleOptions> = {},
  prefix = '/ops/pawl',
  port = 0,
): Promise<TestConsole> {
  const errors: string[] = []
  const app = Fastify({
    logger: { level: 'error', stream: { write: (line: string) => void errors.push(line) } },
  })
  await app.register(fastifyPawlConsole, {
    prefix,
    pool: database.pool(),
    schema: database.schema,
    pollMs: 100,
    authenticate: ({ headers }) => USERS[userOf(headers)] ?? null,
    ...options,
  })
  const url = await app.listen({ port, host: '127.0.0.1' })
  const origin = `${url}${prefix}`
  return {
    app,
    url,
    origin,
    errors,
    as: (name) => new ConsoleClient(origin, { 'x-user': name }),
    close: () => app.close(),
  }
}

/** By a header; of a browser, which sends none along with a download, by a cookie. */
function userOf({ 'x-user': name, cookie = '' }: IncomingHttpHeaders): string {
  return typeof name === 'string' ? name : (/\bx-user=(\w+)/.exec(cookie)?.[1] ?? '')
}
