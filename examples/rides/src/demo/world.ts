import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RunningConsole, startConsole } from '@pawl/console'
import pg from 'pg'
import type { Fault } from '../stand-in/faults.js'
import type { LedgerEntry } from '../stand-in/ledger.js'
import { type DemoDatabase, startDatabase } from './demo-database.js'
import { Service } from './service.js'

/** Short, so that a take-over is soon possible; long enough for a slow machine to renew it. */
const LEASE_MS = 2_000
const POLL_MS = 20
/** What takes longer than this will not happen any more. */
const WAIT_TIMEOUT_MS = 30_000

/** Often enough that a ride is seen at each of its points. */
const CONSOLE_POLL_MS = 500

const { LAYOUT = '' } = process.env

/** A key's row, as an operator sees it. */
export interface KeyRow {
  readonly id: string
  readonly scope: string
  readonly status: string
  readonly recovery_point: string
  readonly fence: number
  readonly attempts: number
  readonly response_status: number | null
  readonly lease_left_ms: number | null
  readonly created_ms: number
  readonly trail: readonly { readonly p: string; readonly t: number; readonly f: number }[]
}

export interface ApiOptions {
  readonly name?: string
  /** Any free port by default. */
  readonly port?: string
  readonly host?: string
  /** Null for the engine's default. */
  readonly leaseMs?: number | null
  /** How many new requests a rider may make in a minute. Any number by default. */
  readonly limitNewPerMinute?: number
  /** Where to end or freeze it: a channel of the engine's announcements, and a phase. */
  readonly crashAt?: string
  readonly crashSignal?: 'SIGKILL' | 'SIGSTOP'
  /** More of its environment. None by default. */
  readonly env?: Readonly<Record<string, string>>
}

/** Everything that the demo starts: a database, the payments stand-in, and the service's own processes. */
export class World {
  readonly folder: string
  readonly databaseUrl: string
  readonly db: pg.Pool
  readonly standIn: Service
  readonly receiptsFile: string
  readonly #database: DemoDatabase
  readonly #services: Service[] = []
  #console: RunningConsole | null = null
  #started = 0
  #isEnding = false

  private constructor(folder: string, database: DemoDatabase, standIn: Service) {
    this.folder = folder
    this.databaseUrl = database.url
    this.standIn = standIn
    this.#database = database
    this.receiptsFile = join(folder, 'receipts.jsonl')
    this.db = new pg.Pool({ connectionString: database.url, max: 2 })
    // The database ends before this pool's last connections do.
    this.db.on('error', () => {})
  }

  static async create(): Promise<World> {
    const folder = await mkdtemp(join(tmpdir(), 'pawl-rides-'))
    const database = await startDatabase(LAYOUT)
    const env = { LEDGER_FILE: join(folder, 'ledger.jsonl'), PORT: '0', LIFE_LINE_FOLDER: folder }
    const standIn = await Service.start({
      name: 'stand-in',
      script: 'stand-in/main.js',
      env,
      logFolder: folder,
    })
    return new World(folder, database, standIn)
  }

  async startApi(options: ApiOptions = {}): Promise<Service> {
    // Nobody waits for it any more, and nobody would end it.
    if (this.#isEnding) return new Promise(() => {})
    const { name, crashAt, crashSignal = 'SIGKILL', port = '0', host = '127.0.0.1' } = options
    const { leaseMs = LEASE_MS, limitNewPerMinute, env = {} } = options
    const limit = limitNewPerMinute === undefined ? {} : { LIMIT_NEW_PER_MINUTE: String(limitNewPerMinute) }
    const crash = crashAt === undefined ? {} : { CRASH_AT: crashAt, CRASH_SIGNAL: crashSignal }
    const lease = leaseMs === null ? {} : { LEASE_MS: String(leaseMs) }
    const service = await Service.start({
      name: name ?? `api-${++this.#started}`,
      script: 'server.js',
      env: { ...env, ...this.#environment(), ...crash, ...lease, ...limit, PORT: port, HOST: host },
      logFolder: this.folder,
      preload: crashAt === undefined ? [] : ['demo/crash-at.js'],
    })
    this.#services.push(service)
    return service
  }

  async startWorker(more: Readonly<Record<string, string>> = {}): Promise<Service> {
    const env = { ...more, ...this.#environment(), RECEIPTS_FILE: this.receiptsFile }
    const service = await Service.start({ name: 'worker', script: 'worker.js', env, logFolder: this.folder })
    this.#services.push(service)
    return service
  }

  /** The console, in the demo's own process: those that are killed have nothing to do with it. */
  async openConsole(onAddress: (address: string) => void): Promise<void> {
    this.#console = await startConsole({
      url: this.databaseUrl,
      port: 0,
      pollMs: CONSOLE_POLL_MS,
      onAddress,
    })
  }

  /** Of the API that was started last. */
  get apiUrl(): string {
    const api = this.#services.findLast(({ name }) => name.startsWith('api'))
    return api?.url ?? 'nowhere'
  }

  /** What the next requests meet at the payments provider. */
  async provoke(...faults: Fault[]): Promise<void> {
    await fetch(`${this.standIn.url}/faults`, { method: 'POST', body: JSON.stringify(faults) })
  }

  async ledger(): Promise<LedgerEntry[]> {
    return (await (await fetch(`${this.standIn.url}/ledger`)).json()) as LedgerEntry[]
  }

  async key(key: string): Promise<KeyRow | null> {
    const { rows } = await this.db.query<KeyRow>(
      `SELECT id, scope, status, recovery_point, fence::int, attempts, response_status, trail,
              extract(epoch FROM created_at)::float * 1000 AS created_ms,
              extract(epoch FROM lease_until - clock_timestamp())::float * 1000 AS lease_left_ms
         FROM pawl.idempotency_keys WHERE key = $1`,
      [key],
    )
    return rows[0] ?? null
  }

  /** How many rides somebody or something still has to end. */
  async unfinished(): Promise<number> {
    const { rows } = await this.db.query<{ count: number }>(
      `SELECT count(*)::int FROM pawl.idempotency_keys WHERE pipeline = 'create-ride' AND status = 'running'`,
    )
    return rows[0]?.count ?? 0
  }

  async receipts(): Promise<{ readonly id: string }[]> {
    const text = await readFile(this.receiptsFile, 'utf8').catch(() => '')
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { id: string })
  }

  /** Waits until the condition holds. `what` names it in the error if it never does. */
  async until(what: string, isSo: () => Promise<boolean>, timeoutMs = WAIT_TIMEOUT_MS): Promise<void> {
    const giveUpAt = performance.now() + timeoutMs
    while (!(await isSo())) {
      if (performance.now() > giveUpAt)
        throw new Error(`waited ${timeoutMs / 1_000} s for ${what}; the logs are in ${this.folder}`)
      await sleep(POLL_MS)
    }
  }

  /** Ends everything. The logs are kept if something went wrong. */
  async end(keepLogs: boolean): Promise<void> {
    this.#isEnding = true
    await this.#console?.close()
    for (const service of this.#services) service.signal('SIGKILL')
    this.standIn.signal('SIGTERM')
    await Promise.all([...this.#services, this.standIn].map((service) => service.exited))
    await this.db.end()
    await this.#database.stop()
    if (!keepLogs) await rm(this.folder, { recursive: true, force: true })
  }

  #environment(): Record<string, string> {
    return { DATABASE_URL: this.databaseUrl, STRIPE_API_BASE: this.standIn.url, LAYOUT }
  }
}
