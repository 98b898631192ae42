import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { describe } from 'vitest'

const hasServer = isOnPath('redis-server')
const givenUrl = process.env['REDIS_URL'] ?? ''

/** For tests that need a Redis, and leave it as it is: the one that `REDIS_URL` names, or one of their own. */
export function describeOnRedis(what: string, tests: () => void): void {
  const runs = hasServer || givenUrl !== ''
  if (!runs)
    console.warn(`NOT RUN, because there is neither REDIS_URL nor a redis-server on the PATH: ${what}`)
  describe.runIf(runs)(what, tests)
}

/** For tests that start servers, and end them. Without the program, they do not run. */
export function describeOnOwnRedis(what: string, tests: () => void): void {
  if (!hasServer) console.warn(`NOT RUN, because there is no redis-server on the PATH: ${what}`)
  describe.runIf(hasServer)(what, tests)
}

/** How soon a test asks again whether the server has come up. */
const RETRY_MS = 10

/** Sends one command on a connection of its own. Waits until the server takes it. */
async function askRedis(url: string, command: string, ...args: readonly string[]): Promise<unknown> {
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => RETRY_MS })
  client.on('error', () => {})
  try {
    return await client.call(command, ...args)
  } finally {
    client.disconnect()
  }
}

/** A Redis in which others may have values, too. */
export class SharedRedis {
  readonly url: string
  /** What the names of all values begin with. */
  readonly prefix = `pawl-test-${randomUUID()}:`
  readonly #own: RedisServer | null

  private constructor(url: string, own: RedisServer | null) {
    this.url = url
    this.#own = own
  }

  static async open(): Promise<SharedRedis> {
    if (givenUrl !== '') return new SharedRedis(givenUrl, null)
    const own = await RedisServer.start()
    return new SharedRedis(own.url, own)
  }

  async ask(command: string, ...args: readonly string[]): Promise<string> {
    return String(await askRedis(this.url, command, ...args))
  }

  async names(): Promise<string[]> {
    return (await askRedis(this.url, 'KEYS', `${this.prefix}*`)) as string[]
  }

  async empty(): Promise<void> {
    for (const name of await this.names()) await this.ask('DEL', name)
  }

  async close(): Promise<void> {
    await this.empty()
    await this.#own?.stop()
  }
}

/** Debian has it; the package starts no server that a test would use. */
function isOnPath(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`])
    return true
  } catch {
    return false
  }
}

/** Ends the server when its input ends, as it does when the tests are killed. */
const SUPERVISED = 'redis-server "$@" >/dev/null & server=$!; read _; kill -9 $server'

/** A Redis on a port and in a folder of its own. It writes snapshots only when it is told to. */
export class RedisServer {
  readonly url: string
  readonly #folder: string
  readonly #port: number
  readonly #settings: readonly string[]
  #shell: ChildProcess | null = null
  #pid = 0

  private constructor(folder: string, port: number, settings: readonly string[]) {
    this.#folder = folder
    this.#port = port
    this.#settings = settings
    this.url = `redis://127.0.0.1:${port}`
  }

  static async start(...settings: readonly string[]): Promise<RedisServer> {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-redis-'))
    const server = new RedisServer(folder, await freePort(), settings)
    await server.restart()
    return server
  }

  /** Starts it after a `kill`, with the last snapshot. */
  async restart(): Promise<void> {
    const args = ['--port', String(this.#port), '--bind', '127.0.0.1', '--dir', this.#folder, '--save', '']
    this.#shell = spawn('sh', ['-c', SUPERVISED, 'sh', ...args, ...this.#settings], {
      stdio: ['pipe', 'ignore', 'inherit'],
    })
    this.#pid = Number(/process_id:(\d+)/.exec(await this.ask('INFO', 'server'))?.[1])
  }

  async ask(command: string, ...args: readonly string[]): Promise<string> {
    return String(await askRedis(this.url, command, ...args))
  }

  /** Writes a snapshot, which the next `restart` reads. */
  async save(): Promise<void> {
    await this.ask('SAVE')
  }

  /** Ends it as a crash would. */
  async kill(): Promise<void> {
    const shell = this.#shell
    this.#shell = null
    if (shell === null) return
    const ended = once(shell, 'exit')
    this.thaw()
    shell.stdin?.end()
    await ended
  }

  freeze(): void {
    process.kill(this.#pid, 'SIGSTOP')
  }

  thaw(): void {
    process.kill(this.#pid, 'SIGCONT')
  }

  async stop(): Promise<void> {
    await this.kill()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
