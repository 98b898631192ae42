import { randomUUID } from 'node:crypto'
import { createBackground, createOperator, deliverEach, type Outcome } from '@pawl/core'
import { afterAll, expect, inject, test, vi } from 'vitest'
import { Provider } from '../support/provider.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideOf, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { Move } from './partition-page.js'

vi.setConfig({ testTimeout: 60_000 })

const database = await TestDatabase.createNew()
await createRideTables(database)
await database.rows(
  'ALTER TABLE rides DROP CONSTRAINT IF EXISTS rides_key_id_fkey, DROP CONSTRAINT IF EXISTS rides_key_id_rider_fkey',
)
const move = await Move.begin(database)
const { schema } = move
afterAll(async () => {
  await move.drop()
  await database.drop()
})

const provider = new Provider(inject('providerUrl'))
const ride = createRideOf(provider)
const SCOPES = 12

/** Sends rides, each until it has its answer, until it is told to stop. */
class Client {
  readonly answers = new Map<string, string>()
  readonly #engine = createEngine({
    pool: database.pool({ max: 6 }),
    pipelines: [ride],
    schema,
    preparedStatements: true,
  })
  #stopped = false
  readonly #running = Array.from({ length: 4 }, (_, nth) => this.#sendRides(nth))

  get engine() {
    return this.#engine
  }

  send(scope: string, key: string): Promise<Outcome> {
    return this.#engine.execute(ride, { scope, key, input: { amount: 900 } })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#running)
  }

  /** Resolves once this many more have been answered. */
  async hasAnswered(more: number): Promise<void> {
    const wanted = this.answers.size + more
    await vi.waitFor(() => expect(this.answers.size).toBeGreaterThanOrEqual(wanted), { timeout: 30_000 })
  }

  async #sendRides(nth: number): Promise<void> {
    for (let sent = nth; !this.#stopped; sent++) {
      const scope = `scope-${sent % SCOPES}`
      const key = randomUUID()
      for (;;) {
        const outcome = await this.send(scope, key)
        if (outcome.type === 'completed' || outcome.type === 'replayed') {
          this.answers.set(`${scope} ${key}`, outcome.response.body.toString())
          break
        }
      }
    }
  }
}

const tables = ['idempotency_keys', 'effects', 'staged_jobs']
const partitionsOf = (table: string) =>
  database.admin.query(`SELECT FROM pg_inherits WHERE inhparent = '${schema}.${table}'::regclass`)

test('the tables are moved while requests, a completer and a relay are at work, and nothing is lost', async () => {
  const client = new Client()
  const delivered = new Set<unknown>()
  const sink = deliverEach(async ({ payload }) => void delivered.add((payload as { rideId: string }).rideId))
  const background = createBackground({
    engine: client.engine,
    completer: { pollMs: 50 },
    relay: { sink, pollMs: 50 },
    reaper: false,
  })
  const services = [background.completer, ...background.relays]
  for (const service of services) service?.start()
  await client.hasAnswered(40)

  // Its process has died: the completer goes on with it when its lease is over, after the swap.
  const crashed = new RideTrial(database, createRideOf, { schema })
  expect(await crashed.dieAt('ride_created/commit#1:after')).toBe('died')
  await move.makeTables()
  await move.run('copy the rights')
  await move.run('mirror every write')
  await client.hasAnswered(20)
  await move.run('copy what is older')
  await move.run('copy the tables')
  await client.hasAnswered(20)
  expect(await move.run('compare')).toEqual([])
  await vi.waitFor(() => move.run('swap'), { timeout: 20_000 })
  await client.hasAnswered(40)
  await client.stop()

  for (const table of tables) expect((await partitionsOf(table)).rowCount).toBe(4)
  for (const [name, body] of client.answers) {
    const [scope = '', key = ''] = name.split(' ')
    const again = await client.send(scope, key)
    expect([again.type, again.type === 'replayed' && again.response.body.toString()]).toEqual([
      'replayed',
      body,
    ])
  }
  await database.admin.query(
    `UPDATE ${schema}.idempotency_keys SET lease_until = now() WHERE status = 'running'`,
  )
  await vi.waitFor(async () => {
    const { rows } = await database.admin.query(
      `SELECT status FROM ${schema}.idempotency_keys WHERE scope = $1`,
      [crashed.scope],
    )
    expect(rows).toEqual([{ status: 'finished' }])
  })
  const rides = await database.rows<{ id: string }>('SELECT id FROM rides WHERE charge_id IS NOT NULL')
  expect(rides).toHaveLength(client.answers.size + 1)
  await vi.waitFor(() => expect(delivered.size).toBe(rides.length), { timeout: 20_000 })
  for (const service of services) await service?.stop()
  await client.engine.close()
  const operator = createOperator({ pool: database.pool({ max: 1 }), schema })
  expect((await operator.status()).layout).toEqual({ kind: 'partitioned', partitions: 4 })
})

test('a row refers to its key as the page shows', async () => {
  await database.admin.query(`SET search_path = ${database.businessSchema}`)
  await database.admin.query('DROP TABLE rides')
  await move.run('refer to a key')
})
