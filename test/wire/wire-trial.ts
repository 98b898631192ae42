import * as shipped from '@pawl/core'
import type { Engine, EngineOptions } from '@pawl/core'
import { type FakeProvider, fakeProvider } from '@pawl/crash-kit'
import pg from 'pg'
import { inject } from 'vitest'
import { KitDatabase, type Prepare } from '../../packages/crash-kit/src/database/kit-database.js'
import { withSettings } from '../../packages/crash-kit/src/database/connection.js'
import type { Delivery, Violation } from '../../packages/crash-kit/src/history.js'
import type { ProviderControls } from '../../packages/crash-kit/src/provider/provider-controls.js'
import { controlsOf } from '../../packages/crash-kit/src/provider/fake-provider.js'
import { ProtocolProxy } from './protocol-proxy.js'
import { guarded, IS_GUARDED } from '../support/guards.js'
import { LAYOUT } from '../support/layout.js'

/** It is short, so that what a fault leaves behind is soon over. The server's time-outs are half of it. */
export const LEASE_MS = 600

/** Long for a call on one machine, and not much longer than a lease, because every silent provider costs this much. */
const CALL_TIMEOUT_MS = 800

/** More than all faults of a case together: that a key is stuck at its cap is tested elsewhere. */
const MAX_ATTEMPTS = 10_000

export const SETTINGS = {
  leaseMs: LEASE_MS,
  callTimeoutMs: CALL_TIMEOUT_MS,
  maxAttempts: MAX_ATTEMPTS,
} as const

/** docs/guarantees.md asks for one: without it, a client would wait for a server that accepts a connection and is silent. */
const CONNECTION_TIMEOUT_MS = 1_000

/** Longer than the longest back-off, and longer than a provider that was asked has to be quiet. */
const PASSED_EACH_ROUND_MS = 11 * 60_000

/** Rounds of the completer that keys may need once faults have stopped: more than a plan has troubles of its own. */
const MAX_COMPLETER_ROUNDS = 80

/** Fewer than the completer's places: a scope gets some of them only. */
const PER_SCOPE = IS_GUARDED ? { concurrencyPerScope: 2 } : {}

/** How long connections and transactions may take to end by the server's own time-outs, on a busy machine. */
const LEFTOVERS_MS = 10_000

/** An engine as it ships, on its own pool. */
export interface PlainEngine<DB> {
  readonly name: string
  readonly engine: Engine<DB>
  readonly pool: pg.Pool
}

/**
 * A database whose triggers record every write, a provider with a ledger of its own, and plain engines whose connections
 * lead through proxies. Nothing of it is inside an engine.
 */
export class WireTrial {
  /** The copy of @pawl/core that the engines come from. */
  readonly core: Pick<typeof shipped, 'aesGcm' | 'createEngine' | 'createBackground'>
  readonly database: KitDatabase
  readonly provider: FakeProvider
  readonly controls: ProviderControls
  readonly rejections: unknown[] = []
  readonly deliveries: (Delivery & { readonly keyId: string })[] = []
  readonly #guards: ReturnType<typeof guarded>
  readonly #pools = new Map<pg.Pool, string>()
  readonly #proxies: ProtocolProxy[] = []
  readonly #onRejection = (reason: unknown): void => void this.rejections.push(reason)
  #ticks = 0

  private constructor(
    core: WireTrial['core'],
    guards: ReturnType<typeof guarded>,
    database: KitDatabase,
    provider: FakeProvider,
  ) {
    this.core = core
    this.#guards = guards
    this.database = database
    this.provider = provider
    this.controls = controlsOf(provider)
    this.controls.onRequest(({ body }) => ({
      tick: this.tick(),
      phase: phaseIn(body),
      actor: 'an engine',
      inTransaction: false,
    }))
    process.on('unhandledRejection', this.#onRejection)
  }

  static async open(prepare: Prepare, core: WireTrial['core'] = shipped): Promise<WireTrial> {
    const provider = fakeProvider()
    await provider.start()
    const pool = new pg.Pool({ connectionString: inject('databaseUrl') })
    const guards = guarded({}, core)
    const protection = guards.protect ?? null
    const database = await KitDatabase.open({ pool, prepare, layout: LAYOUT, protection })
    await pool.end()
    return new WireTrial(core, guards, database, provider)
  }

  tick(): number {
    return ++this.#ticks
  }

  async proxy(): Promise<ProtocolProxy> {
    const { host = '127.0.0.1', port = 5432 } = this.database.poolConfig('any')
    const proxy = await ProtocolProxy.start({ host, port })
    this.#proxies.push(proxy)
    return proxy
  }

  /** An engine with nothing but documented options. Without a proxy, its connections lead straight to the server. */
  engine<DB>(
    name: string,
    proxy: ProtocolProxy | null,
    options: Omit<EngineOptions<DB>, 'pool' | 'schema'> & {
      readonly connections?: number
      /** Settings of the server for its sessions. */
      readonly server?: Readonly<Record<string, string>>
      /** Whether it has the cache of the guards. Default true. */
      readonly cached?: boolean
    },
  ): PlainEngine<DB> {
    const { connections = 3, server = {}, cached = true, ...others } = options
    const at = proxy === null ? {} : { host: proxy.host, port: proxy.port, ssl: false }
    const config = this.database.poolConfig(name, {
      ...at,
      max: connections,
      connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
    })
    const pool = new pg.Pool(withSettings(config, server))
    pool.on('error', () => {})
    pool.setMaxListeners(0)
    this.#pools.set(pool, name)
    const { cache, ...guards } = this.#guards
    const engine = this.core.createEngine<DB>({
      ...guards,
      ...(cached && cache !== undefined && { cache }),
      pool,
      schema: this.database.pawlSchema,
      ...others,
      defaults: { ...this.#guards.defaults, ...others.defaults },
    })
    return { name, engine, pool }
  }

  /** Ends an engine, and returns those of its connections that did not come back. */
  async leave<DB>({ engine, pool, name }: PlainEngine<DB>): Promise<Violation[]> {
    await engine.close()
    this.#pools.delete(pool)
    const isWhole = (): boolean => pool.totalCount === pool.idleCount && pool.waitingCount === 0
    // A statement that was given up is cancelled before its connection goes back.
    const until = performance.now() + LEFTOVERS_MS
    while (!isWhole() && performance.now() < until) await this.database.admin.query('SELECT pg_sleep(0.01)')
    const { totalCount, idleCount } = pool
    if (isWhole()) {
      await pool.end()
      return []
    }
    void pool.end()
    return [left(`${totalCount - idleCount} of ${totalCount} connections of ${name} did not come back.`)]
  }

  /**
   * Called once faults have stopped: time passes, and the completer finishes every key. Returns the number of rounds, or
   * null if some key was still running after all of them.
   */
  async complete<DB>(options: Pick<EngineOptions<DB>, 'pipelines'>): Promise<number | null> {
    const { admin, pawlSchema } = this.database
    const completing = this.engine<DB>('completer', null, { ...options, connections: 8 })
    try {
      for (let round = 0; round <= MAX_COMPLETER_ROUNDS; round++) {
        const { rows } = await admin.query<{ scope: string; key: string }>(
          `SELECT scope, key FROM ${pawlSchema}.idempotency_keys WHERE status = 'running'`,
        )
        if (rows.length === 0) return round
        for (const { scope, key } of rows) await this.database.passTime(scope, key, PASSED_EACH_ROUND_MS)
        // Each round has a new completer: one that remembers would pause by the clock, and not by the time we let pass.
        const { completer } = this.core.createBackground({
          engine: completing.engine,
          completer: { concurrency: 6, batchSize: 1_000, ...PER_SCOPE },
          reaper: false,
        })
        await completer?.runOnce()
      }
      return null
    } finally {
      await this.leave(completing)
    }
  }

  /** Hands all staged jobs over. */
  async relay(): Promise<void> {
    const { admin, pawlSchema } = this.database
    const soon = "clock_timestamp() - interval '1 second'"
    await admin.query(`UPDATE ${pawlSchema}.staged_jobs SET run_after = ${soon}, claim_until = NULL`)
    const relaying = this.engine('relay', null, { pipelines: [] })
    const { relays } = this.core.createBackground({
      engine: relaying.engine,
      completer: false,
      reaper: false,
      relay: { sink: this.sink() },
    })
    for (const relay of relays) while ((await relay.runOnce()).claimed > 0);
    await this.leave(relaying)
  }

  sink() {
    return shipped.deliverEach(async ({ id, name, keyId }) => {
      this.deliveries.push({ tick: this.tick(), id, name, keyId })
    })
  }

  /** Which transactions and promises are left once everything has ended. */
  async leftovers(): Promise<Violation[]> {
    const giveUpAt = performance.now() + LEFTOVERS_MS
    for (;;) {
      const open = (await this.database.backends()).filter(({ state }) =>
        state.startsWith('idle in transaction'),
      )
      if (open.length === 0 || performance.now() > giveUpAt) {
        return [
          ...open.map(({ actor, query }) =>
            left(`A session of ${actor} was left in a transaction, after: ${query}`),
          ),
          ...this.#proxies
            .flatMap(({ loneWrites }) => loneWrites.splice(0))
            .map((statements) =>
              left(`A message wrote more than once without BEGIN: ${statements.join('; ')}`),
            ),
          ...this.rejections
            .splice(0)
            .map((reason) => left(`A promise was rejected and nobody handled it: ${String(reason)}`)),
        ]
      }
      await this.database.admin.query('SELECT pg_sleep(0.02)')
    }
  }

  /** Forgets all requests, here and at the provider. */
  async clear(): Promise<void> {
    const { admin, schema, pawlSchema, id } = this.database
    const { rows } = await admin.query<{ name: string }>(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
        WHERE schemaname = $1 OR (schemaname = $2 AND tablename = ANY ($3)) OR (schemaname = $4 AND tablename = 'history')`,
      [
        schema,
        pawlSchema,
        ['idempotency_keys', 'effects', 'staged_jobs', 'interventions', 'scope_usage'],
        `${id}_audit`,
      ],
    )
    await admin.query(`TRUNCATE ${rows.map(({ name }) => name).join(', ')}`)
    this.controls.reset()
    this.deliveries.length = 0
  }

  async close(): Promise<void> {
    process.off('unhandledRejection', this.#onRejection)
    await Promise.all(this.#proxies.map((proxy) => proxy.close()))
    for (const pool of this.#pools.keys()) void pool.end()
    await this.database.close()
    await this.provider.close()
  }
}

/** Every request to the provider names its phase. */
function phaseIn(body: string): string | null {
  try {
    return (JSON.parse(body) as { readonly phase?: string }).phase ?? null
  } catch {
    return null
  }
}

function left(detail: string): Violation {
  return { rule: 'I14', title: 'after any fault, connections, transactions and promises have ended', detail }
}
