import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chown, mkdtemp, open, readFile, rm, writeFile, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Binaries } from './binaries.js'
import { findFreePort } from './free-port.js'
import type { ServerStatus } from './messages.js'
import type { ServerUser } from './server-user.js'
import { findTempRoot } from './temp-root.js'

// A start takes about 0.1 s; recovery after an immediate stop, on a busy machine, some seconds.
const START_LIMIT_MS = 60_000

// pg_ctl's own interval would be too long for a start that takes 0.1 s.
const START_POLL_MS = 10

// Backends whose clients said goodbye leave within milliseconds, on a busy machine within a second or two. Whoever is still
// connected then means to stay.
const LEAVE_LIMIT_MS = 2_000

// A fast stop takes milliseconds, unless a test froze a backend.
const FAST_STOP_LIMIT_MS = 5_000

// Between finding a free port and binding it, another server may take it; several times in a row is no coincidence.
const MAX_PORT_TRIES = 5

// Enough to hold an error with its context.
const LOG_LINES_IN_ERROR = 20

const DEFAULT_SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  // The files do not outlive us, so a power loss does not matter; after a kill, the server still finds what the kernel
  // has.
  fsync: 'off',
  synchronous_commit: 'on',
}

// The superuser can run programs as the developer (COPY … FROM PROGRAM), and every local user can reach the port.
const HOST_BASED_AUTHENTICATION = 'host all all 127.0.0.1/32 scram-sha-256\n'

// Not `pawl`: the default search path begins with the schema named after the role, and Pawl's schema is `pawl`.
const SUPERUSER = 'postgres'
const DATABASE = 'pawl'

const PASSWORD_BYTES = 32

// Iterations slow down guessing. Nobody guesses 32 random bytes, and tests connect often.
const SCRAM_ITERATIONS = 1

type ServerOptions = {
  readonly binaries: Binaries
  readonly user: ServerUser
  readonly settings: Readonly<Record<string, string>>
  readonly port: number | null
}

/** One PostgreSQL server with its directory: `data/` and `postgres.log`. */
export class PostgresServer {
  readonly #options: ServerOptions
  readonly #directory: string
  readonly #log: FileHandle
  readonly #password = randomBytes(PASSWORD_BYTES).toString('base64url')
  #port: number | null
  #process: ChildProcess | null = null

  private constructor(options: ServerOptions, directory: string, log: FileHandle) {
    this.#options = options
    this.#directory = directory
    this.#log = log
    this.#port = options.port
  }

  static async create(options: ServerOptions): Promise<PostgresServer> {
    const root = await findTempRoot(options.user)
    const directory = await mkdtemp(join(root, 'pawl-postgres-'))
    const log = await open(join(directory, 'postgres.log'), 'a')
    const server = new PostgresServer(options, directory, log)
    try {
      await server.#initialise()
    } catch (error) {
      await server.remove()
      throw error
    }
    return server
  }

  get status(): ServerStatus {
    const port = this.#port ?? 0
    const url = `postgresql://${SUPERUSER}:${this.#password}@127.0.0.1:${port}/${DATABASE}`
    return { url, port, pid: this.#process?.pid ?? null, directory: this.#directory }
  }

  async start(): Promise<void> {
    for (let tries = 1; ; tries++) {
      const port = this.#port ?? (await findFreePort())
      if (await this.#startOn(port)) {
        this.#port = port
        return
      }
      const log = await this.#lastLogLines()
      const mayTryAnotherPort = this.#port === null && log.includes('Address already in use')
      if (!mayTryAnotherPort || tries === MAX_PORT_TRIES) throw new Error(`PostgreSQL did not start.\n${log}`)
    }
  }

  /** Fast stop: sessions are ended, the data is left in a clean state. */
  async stop(): Promise<void> {
    await this.#end({ SIGINT: 0, SIGQUIT: FAST_STOP_LIMIT_MS })
  }

  /**
   * Stops the server once every session has left, and ends those that do not leave. `pool.end()` of pg resolves while its
   * connections are still closing. If they are terminated at that point, they crash the process of a caller that did
   * everything right.
   */
  async stopWhenLeft(): Promise<void> {
    // SIGTERM is the smart stop, which waits for sessions to end.
    await this.#end({ SIGTERM: 0, SIGINT: LEAVE_LIMIT_MS, SIGQUIT: LEAVE_LIMIT_MS + FAST_STOP_LIMIT_MS })
  }

  /** Immediate stop: what a crash leaves behind. */
  async kill(): Promise<void> {
    await this.#end({ SIGQUIT: 0 })
  }

  /** Stops the server and leaves nothing behind. Calling it again does nothing. */
  async remove(): Promise<void> {
    await this.stop()
    await this.#log.close()
    await rm(this.#directory, { recursive: true, force: true })
  }

  async #initialise(): Promise<void> {
    const { binaries, user } = this.#options
    if (user !== null) await chown(this.#directory, user.uid, user.gid)
    const flags = [`--username=${SUPERUSER}`, '--auth=reject', '--encoding=UTF8', '--locale=C', '--no-sync']
    await this.#runToEnd(binaries.initdb, [`--pgdata=${this.#dataDirectory}`, ...flags])
    await writeFile(join(this.#dataDirectory, 'pg_hba.conf'), HOST_BASED_AUTHENTICATION)
    // Single-user mode needs no client and no listening server, and nobody else sees what it reads from its input.
    await this.#runToEnd(
      binaries.postgres,
      ['--single', '-c', `scram_iterations=${SCRAM_ITERATIONS}`, '-D', this.#dataDirectory, 'postgres'],
      `ALTER ROLE ${SUPERUSER} PASSWORD '${this.#password}'\nCREATE DATABASE ${DATABASE}\n`,
    )
    // Once this went well, what was logged so far is of no use, and would push the server's own lines out of an error.
    await this.#log.truncate()
  }

  async #runToEnd(program: string, args: readonly string[], input = ''): Promise<void> {
    const child = this.#spawn(program, args)
    child.stdin?.end(input)
    const [code] = (await once(child, 'exit')) as [number | null]
    if (code !== 0) throw new Error(`PostgreSQL could not be initialised.\n${await this.#lastLogLines()}`)
  }

  /** Resolves to false if the server ended instead of accepting connections. */
  async #startOn(port: number): Promise<boolean> {
    const settings = { ...DEFAULT_SETTINGS, ...this.#options.settings, port: String(port) }
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const child = this.#spawn(this.#options.binaries.postgres, ['-D', this.#dataDirectory, ...flags])
    child.stdin?.end()
    this.#process = child
    child.on('exit', () => {
      if (this.#process === child) this.#process = null
    })
    const deadline = Date.now() + START_LIMIT_MS
    while (this.#process === child && Date.now() < deadline) {
      if (await this.#isReady(child)) return true
      await delay(START_POLL_MS)
    }
    await this.kill()
    return false
  }

  /** Reads the status that the server writes for pg_ctl: its process id in the first line, its state in the eighth. */
  async #isReady(child: ChildProcess): Promise<boolean> {
    const text = await readFile(join(this.#dataDirectory, 'postmaster.pid'), 'utf8').catch(() => '')
    const lines = text.split('\n')
    return lines[0] === String(child.pid) && lines[7]?.trim() === 'ready'
  }

  /** Sends the signals, each after its time, until the server has ended. */
  async #end(afterMs: Partial<Record<'SIGTERM' | 'SIGINT' | 'SIGQUIT', number>>): Promise<void> {
    const child = this.#process
    if (child === null) return
    const exited = once(child, 'exit')
    const timers = Object.entries(afterMs).map(([signal, ms]) =>
      setTimeout(() => {
        child.kill(signal as NodeJS.Signals)
        // A test may have frozen the server; a frozen process reacts to no signal but this one.
        child.kill('SIGCONT')
      }, ms),
    )
    await exited
    for (const timer of timers) clearTimeout(timer)
  }

  #spawn(program: string, args: readonly string[]): ChildProcess {
    const log = this.#log.fd
    return spawn(program, args, {
      cwd: this.#directory,
      // Nothing from the caller's environment: PGDATA or LC_ALL there must not change what tests see.
      env: { LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['pipe', log, log],
      ...this.#options.user,
    })
  }

  async #lastLogLines(): Promise<string> {
    const text = await readFile(join(this.#directory, 'postgres.log'), 'utf8')
    return text.trimEnd().split('\n').slice(-LOG_LINES_IN_ERROR).join('\n')
  }

  get #dataDirectory(): string {
    return join(this.#directory, 'data')
  }
}
