import { createBackground, type Engine, type Outcome, retryLater } from '@pawl/core'
import { createProbedEngine, executeAtomic, lookAtKey } from '@pawl/core/internal'
import type pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { cutConnections, positionNamer } from '../support/crash.js'
import { atMostOnceRideOf, skippedRide } from '../support/guarded-rides.js'
import { parentNames } from '../support/parent-names.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables, type Database, pipeline } from '../support/rides.js'
import type { TestDatabase } from '../support/test-database.js'

const BY_SCOPE_AND_KEY = 'idempotency_keys_scope_key_key'
const BY_ID = 'idempotency_keys_pkey'
const RUNNING = 'idempotency_keys_running'

/** Which index of the keys' table serves each statement of the framework that reads or writes a key. */
const INDEX_OF = {
  insert_key: BY_SCOPE_AND_KEY,
  find_key: BY_SCOPE_AND_KEY,
  find_progress: BY_SCOPE_AND_KEY,
  find_key_by_id: BY_ID,
  take_over_key: BY_SCOPE_AND_KEY,
  mark_unheld_stuck: BY_SCOPE_AND_KEY,
  advance_key: BY_SCOPE_AND_KEY,
  finish_key: BY_SCOPE_AND_KEY,
  skip_phase: BY_SCOPE_AND_KEY,
  declare_call: BY_SCOPE_AND_KEY,
  give_back_key: BY_SCOPE_AND_KEY,
  forget_key: BY_SCOPE_AND_KEY,
  mark_stuck: BY_SCOPE_AND_KEY,
  raise_fence: BY_SCOPE_AND_KEY,
  renew_leases: BY_SCOPE_AND_KEY,
  find_unattended_keys: RUNNING,
  forget_atomic_keys: [RUNNING, BY_SCOPE_AND_KEY],
} as const

/** What is not about one key, or knows it by its id alone. Everything else reads one partition, where there are several. */
const ASK_ALL_PARTITIONS = new Set([
  'find_key_by_id',
  'renew_leases',
  'find_unattended_keys',
  'forget_atomic_keys',
])

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Conflict Arbiter Indexes'?: readonly string[]
  readonly Plans?: readonly Plan[]
}

interface Sent {
  readonly text: string
  readonly values: readonly unknown[]
}

/** Collects the statements of the framework, by name, as they are really sent. */
class Collector {
  readonly #database: TestDatabase
  readonly sent = new Map<string, Map<string, Sent>>()
  #step = ''

  constructor(database: TestDatabase) {
    this.#database = database
  }

  /** `at` says what else to do at a position. */
  async execute(
    trial: RideTrial,
    settings = {},
    at: Record<string, (pool: pg.Pool) => unknown> = {},
    execute: (engine: Engine<Database>) => Promise<Outcome> = (engine) => trial.execute(engine),
  ) {
    this.#step = ''
    const pool = this.#database.pool({ max: 1 })
    pool.on('connect', (client) => this.#listen(client as unknown as { query: Query }))
    // There is one statement in each message, so that the position before it identifies it.
    const options = trial.options(pool, { defaults: settings, pipelining: false })
    const name = positionNamer()
    const engine = createProbedEngine<Database>(options, (position) => {
      this.#step = position.step
      return at[name(position)]?.(pool) as Promise<void> | undefined
    })
    const outcome = await execute(engine)
    const id = (await trial.row())?.id
    if (id !== undefined) await engine.resume(id)
    await engine.close()
    return outcome.type
  }

  #listen(client: { query: Query }): void {
    const query = client.query.bind(client)
    client.query = (config, ...more) => {
      const { text, values = [] } = config
      if (this.#step in INDEX_OF && !/^(BEGIN|END|ROLLBACK)/.test(text)) {
        const texts = this.sent.get(this.#step) ?? new Map<string, Sent>()
        this.sent.set(this.#step, texts.set(text, { text, values }))
      }
      return query(config, ...more)
    }
  }
}

type Query = (config: { text: string; values?: unknown[] }, ...more: unknown[]) => unknown

const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)]

/** Tests which index, and, where there are partitions, how many of them each statement about a key uses. Drops the database. */
export async function testPlansOn(database: TestDatabase): Promise<void> {
  afterAll(() => database.drop())
  await createRideTables(database)

  // Most keys are finished. With this many rows, reading the whole table costs more than an index, and the planner chooses
  // as in production.
  await database.rows(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
                                        input, holder, status, recovery_point, response_status, response_headers,
                                        response_body, expires_at)
     SELECT 'filler-' || n % 64, n::text, 'filler', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid(),
            'finished', 'finished', 200, '{}', '', clock_timestamp() + interval '1 day'
       FROM generate_series(1, 5000) AS n`,
  )
  await database.rows('ANALYZE pawl.idempotency_keys')

  const collector = new Collector(database)
  const pastHalfTheLease = () => database.rows('SELECT pg_sleep(0.25)')

  const refused = new RideTrial(database)
  await refused.provider.willMeet('refuse_500')
  const uncertain = new RideTrial(database, atMostOnceRideOf)
  await uncertain.provider.willMeet('refuse_500')
  const crashed = new RideTrial(database)
  await crashed.dieAt('reserve/insert_key#1:after')
  await database.expireLeases()
  const atomicNote = pipeline<null>({ name: 'note', version: 1 }).finish(() => retryLater())
  const ends = [
    await collector.execute(refused),
    await collector.execute(refused),
    await collector.execute(uncertain),
    await collector.execute(crashed, { maxAttempts: 1 }),
    await collector.execute(new RideTrial(database, skippedRide)),
    await collector.execute(new RideTrial(database), {}, { 'ride_created/commit#1:before': cutConnections }),
    await collector.execute(
      new RideTrial(database),
      { leaseMs: 400 },
      { 'ride_created/commit#1:after': pastHalfTheLease },
    ),
    await collector.execute(new RideTrial(database), {}, {}, async (engine) => {
      await lookAtKey(engine, 'note', 'k')
      const outcome = await executeAtomic(engine, atomicNote, { scope: 'note', key: 'k', input: null })
      await createBackground({ engine, reaper: false }).completer?.runOnce()
      return outcome
    }),
  ]

  const parentOf = await parentNames(database)

  /** The index of a bitmap scan is named by the node that fills the bitmap. */
  const indexOf = (scan: Plan) => parentOf(scan['Index Name'] ?? scan.Plans?.[0]?.['Index Name'] ?? '')

  async function explain({ text, values }: Sent): Promise<Plan[]> {
    const [row] = await database.rows<{ 'QUERY PLAN': [{ Plan: Plan }] }>(`EXPLAIN (FORMAT JSON) ${text}`, [
      ...values,
    ])
    if (row === undefined) throw new Error('no plan')
    return flatten(row['QUERY PLAN'][0].Plan)
  }

  describe('every statement about a key uses an index', () => {
    test('and all of them were seen', () => {
      expect(ends).toEqual([
        'retry_later',
        'replayed',
        'stuck',
        'stuck',
        'completed',
        'completed',
        'completed',
        'retry_later',
      ])
      expect([...collector.sent.keys()].toSorted()).toEqual(Object.keys(INDEX_OF).toSorted())
    })

    test.each(Object.entries(INDEX_OF))('%s uses %s', async (name, index) => {
      const texts = [...(collector.sent.get(name)?.values() ?? [])]
      expect(texts).not.toEqual([])
      for (const sent of texts) {
        const nodes = await explain(sent)
        const scans = nodes.filter(
          (node) =>
            parentOf(node['Relation Name'] ?? '') === 'idempotency_keys' &&
            node['Node Type'].includes('Scan'),
        )
        expect(scans).not.toEqual([])
        if (!ASK_ALL_PARTITIONS.has(name))
          expect(new Set(scans.map((scan) => scan['Relation Name'])).size).toBe(1)
        // A scan without an index has none to name.
        for (const scan of scans) expect([index].flat()).toContain(indexOf(scan))
        const arbiters = nodes.flatMap((node) => node['Conflict Arbiter Indexes'] ?? [])
        expect([...new Set(arbiters.map(parentOf))]).toEqual(name === 'insert_key' ? [BY_SCOPE_AND_KEY] : [])
      }
    })
  })

  test('a reservation looks for effects once: for those that stand, and those that were undone', async () => {
    const texts = [...(collector.sent.get('insert_key')?.values() ?? [])]
    expect(texts).not.toEqual([])
    for (const sent of texts) {
      const scans = (await explain(sent)).filter(
        (node) => parentOf(node['Relation Name'] ?? '') === 'effects',
      )
      expect(scans.map(indexOf)).toEqual(['effects_pkey'])
    }
  })
}
