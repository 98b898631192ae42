import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { inject } from 'vitest'
import { IS_PARTITIONED } from './layout.js'

/** Where the example's built files are. The tests start these, and import none of them. */
export const RIDES_DIST = fileURLToPath(new URL('../../examples/rides/dist/', import.meta.url))

/** As the setting of the tests says. */
export const LAYOUT = IS_PARTITIONED ? 'partitioned' : 'plain'

/** Short enough for a take-over to take a second, and long enough for a busy machine to renew it. */
const LEASE_MS = 1_000
const POLL_MS = 10
/** What has not happened by then will not happen, even on a busy machine. It is less than the time that a test has. */
const WAIT_TIMEOUT_MS = 60_000

type Environment = Readonly<Record<string, string>>

/** What the stand-in can do to the next charge. */
type Fault = 'slow' | 'timeout_before' | 'timeout_after' | 'error_before' | 'stored_error' | 'declined'

/** A line of the provider's ledger. */
interface LedgerEntry {
  readonly id: string
  readonly reference: string
  readonly amount: number
  readonly currency: string
}

export interface ApiOptions {
  /** A channel of the engine's announcements, and a phase, at which the process sends itself a signal. */
  readonly crashAt?: string
  readonly crashSignal?: 'SIGKILL' | 'SIGSTOP'
  readonly env?: Environment
}

/** One process of the example. It ends with this one, because it ends when its standard input does. */
export class RidesProcess {
  /** What it has printed, line by line. */
  readonly out: string[] = []
  readonly errors: string[] = []
  /** The signal's name or the exit code, once everything that it printed has been read. */
  readonly ended: Promise<string>
  readonly #child: ChildProcess

  constructor(script: string, env: Environment, preload: readonly string[] = []) {
    const imports = ['demo/life-line.js', ...preload].flatMap((path) => ['--import', join(RIDES_DIST, path)])
    const child = spawn(process.execPath, [...imports, join(RIDES_DIST, script)], {
      env: { PATH: process.env['PATH'] ?? '', NODE_ENV: 'production', LAYOUT, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    createInterface({ input: child.stdout }).on('line', (line) => this.out.push(line))
    createInterface({ input: child.stderr }).on('line', (line) => this.errors.push(line))
    this.#child = child
    this.ended = once(child, 'close').then(([code, signal]) => String(signal ?? code))
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get url(): string {
    const [, url] = /listening at (http:\/\/[^"\s]+)/.exec(this.out.join('\n')) ?? []
    if (url === undefined) throw new Error('the process does not listen')
    return url
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.ended
  }

  /** Resolves when it has printed a line with this in it, and rejects if it ends before that. */
  async says(words: string): Promise<this> {
    const said = until(`'${words}'`, () => this.out.some((line) => line.includes(words)))
    const ended = this.ended.then((how) => {
      throw new Error(`ended with ${how} before it said '${words}': ${this.errors.join('\n')}`)
    })
    await Promise.race([said, ended])
    return this
  }
}

/** A database, a payments provider, and any number of processes that use both. */
export class Rides {
  readonly databaseUrl: string
  readonly receiptsFile: string
  readonly standIn: RidesProcess
  readonly #folder: string
  readonly #db: pg.Pool
  readonly #processes: RidesProcess[] = []

  private constructor(databaseUrl: string, folder: string, standIn: RidesProcess) {
    this.databaseUrl = databaseUrl
    this.receiptsFile = join(folder, 'receipts.jsonl')
    this.standIn = standIn
    this.#folder = folder
    this.#db = new pg.Pool({ connectionString: databaseUrl, max: 2 })
    // Tests end all connections to the database, and these are among them.
    this.#db.on('error', () => {})
  }

  static async start(): Promise<Rides> {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-test-rides-'))
    const databaseUrl = await createDatabase()
    const standIn = new RidesProcess('stand-in/main.js', {
      LEDGER_FILE: join(folder, 'ledger.jsonl'),
      PORT: '0',
    })
    return new Rides(databaseUrl, folder, await standIn.says('listening at'))
  }

  async startApi({ crashAt, crashSignal = 'SIGKILL', env = {} }: ApiOptions = {}): Promise<RidesProcess> {
    const crash = crashAt === undefined ? {} : { CRASH_AT: crashAt, CRASH_SIGNAL: crashSignal }
    const preload = crashAt === undefined ? [] : ['demo/crash-at.js']
    return this.#start('server.js', { PORT: '0', ...crash, ...env }, preload).says('listening at')
  }

  async startWorker({ crashAt, env = {} }: Pick<ApiOptions, 'crashAt' | 'env'> = {}): Promise<RidesProcess> {
    const crash = crashAt === undefined ? {} : { CRASH_AT: crashAt }
    const preload = crashAt === undefined ? [] : ['demo/crash-at.js']
    const all = { RECEIPTS_FILE: this.receiptsFile, ...crash, ...env }
    return this.#start('worker.js', all, preload).says('worker ready')
  }

  /** What the next charges meet at the provider, one after the other. */
  async provoke(...faults: Fault[]): Promise<void> {
    const { ok } = await fetch(`${this.standIn.url}/faults`, { method: 'POST', body: JSON.stringify(faults) })
    if (!ok) throw new Error(`the stand-in knows no ${faults.join(', ')}`)
  }

  async ledger(): Promise<LedgerEntry[]> {
    return (await (await fetch(`${this.standIn.url}/ledger`)).json()) as LedgerEntry[]
  }

  async rows<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.#db.query<Row>(sql, values)).rows
  }

  async receipts(): Promise<{ readonly receipt: string; readonly id: string; readonly charge_id: string }[]> {
    const text = await readFile(this.receiptsFile, 'utf8').catch(() => '')
    const lines = text.split('\n').filter((line) => line !== '')
    return lines.map((line) => JSON.parse(line) as Awaited<ReturnType<Rides['receipts']>>[number])
  }

  async end(): Promise<void> {
    await Promise.all([...this.#processes, this.standIn].map((process) => process.kill()))
    await this.#db.end()
    await dropDatabase(this.databaseUrl)
    await rm(this.#folder, { recursive: true, force: true })
  }

  #start(script: string, env: Environment, preload: readonly string[]): RidesProcess {
    const base = {
      DATABASE_URL: this.databaseUrl,
      STRIPE_API_BASE: this.standIn.url,
      LEASE_MS: String(LEASE_MS),
    }
    const started = new RidesProcess(script, { ...base, ...env }, preload)
    this.#processes.push(started)
    return started
  }
}

/** Polls, with a bound, for what nobody announces, such as a row that another process writes. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + WAIT_TIMEOUT_MS
  while (!(await isSo())) {
    if (performance.now() > giveUpAt) throw new Error(`waited ${WAIT_TIMEOUT_MS / 1_000} s for ${what}`)
    await sleep(POLL_MS)
  }
}

/** An empty database, because the example uses the default schema. */
export async function createDatabase(): Promise<string> {
  // The prefix is not `rides_`, by which the demo's own databases are recognized.
  const name = `test_rides_${randomUUID().replaceAll('-', '').slice(0, 12)}`
  await onServer(`CREATE DATABASE ${name}`)
  const url = new URL(inject('databaseUrl'))
  url.pathname = `/${name}`
  return url.href
}

export async function dropDatabase(url: string): Promise<void> {
  await onServer(`DROP DATABASE ${new URL(url).pathname.slice(1)} WITH (FORCE)`)
}

/** Runs one statement outside all databases of the tests. */
export async function onServer<Row extends pg.QueryResultRow>(sql: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: inject('databaseUrl') })
  await client.connect()
  try {
    return (await client.query<Row>(sql)).rows
  } finally {
    await client.end()
  }
}
