import { createBackground, createOperator, type Engine, type Outcome } from '@pawl/core'
import type { QueryResultRow } from 'pg'
import { expect } from 'vitest'
import { buryJobs } from '../../cli/filled-database.js'
import { dieAt } from '../../support/die-at.js'
import { createEngine, type Database } from '../../support/rides.js'
import { TestDatabase } from '../../support/test-database.js'
import { Shop, TRIP } from './shop-pipelines.js'

/** A key, in the scope of the same rider unless another is given. */
const RIDER = 'rider-7'

/** Names that clients chose, and that a page must show as what they are: text. */
export const HOSTILE_NAMES = [
  '<img src=x onerror="document.title=\'owned\'">',
  "\"><script>document.title='owned'</script>",
  'javascript:document.title="owned"',
  'right\u202Eto left\u2066',
  'alert\u0007 and escape\u001B[31m red',
  'new\nline\r\u2028and\u2029more',
  'zero\u200Bwidth\uFEFF',
  '../../%2e%2e%2f?a=b&c#d',
  '${7*7} {{7*7}} %s',
  'k'.repeat(255),
] as const

/** How many rides finish: enough for a rate to be seen. */
const FINISHED_RIDES = 12

/** A database that engines have worked on, with a key in every condition that a person can meet; and one engine that still does. */
export class BusyDatabase {
  readonly database: TestDatabase
  readonly shop = new Shop()
  readonly #live: Engine<Database>
  #underWay: Promise<readonly Outcome[]> = Promise.resolve([])

  private constructor(database: TestDatabase) {
    this.database = database
    this.#live = this.engine()
  }

  /** `hasHostileNames`: also keys and scopes that somebody chose in order to break the page. */
  static async create({ hasHostileNames = true } = {}): Promise<BusyDatabase> {
    const busy = new BusyDatabase(await TestDatabase.createPlain())
    await busy.#fill(hasHostileNames)
    return busy
  }

  /** As in one more process. */
  engine(): Engine<Database> {
    const { pipelines, schema, countDuplicates } = this.#options()
    return createEngine({ pool: this.database.pool(), pipelines, schema, countDuplicates })
  }

  /** The id of a key, by the name that its client gave it. */
  async keyIdOf(key: string): Promise<string> {
    const { id } = await this.row<{ id: string }>('SELECT id FROM pawl.idempotency_keys WHERE key = $1', [
      key,
    ])
    return id
  }

  /** The one row that a query returns. */
  async row<Row extends QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row> {
    const [row] = await this.database.rows<Row>(sql, values)
    if (row === undefined) throw new Error(`No row, with ${values.join(', ')}: ${sql}`)
    return row
  }

  /** What people did, oldest first. */
  interventions() {
    return this.database.rows<{ action: string; actor: string; reason: string | null }>(
      'SELECT action, actor, reason FROM pawl.interventions ORDER BY created_at',
    )
  }

  /** What a completer in some other process does meanwhile. */
  async complete(): Promise<void> {
    const engine = this.engine()
    await createBackground({ engine, reaper: false }).runOnce()
    await engine.close()
  }

  /** The requests that are held go on to their ends. */
  async finishHeld(): Promise<void> {
    this.shop.letGo()
    await this.#underWay
  }

  async drop(): Promise<void> {
    await this.finishHeld()
    await this.#live.close()
    await this.database.drop()
  }

  #options() {
    return { pipelines: this.shop.recorded, schema: this.database.schema, countDuplicates: true }
  }

  async #fill(hasHostileNames: boolean): Promise<void> {
    const { shop, database } = this
    const engine = this.engine()
    await engine.recordPipelines()
    await this.#finishSome(engine)
    await this.#getStuck(engine)
    if (hasHostileNames) await this.#leaveHostileNames(engine)
    await engine.execute(shop.payDriver, { scope: 'driver-3', key: 'payout-2001', input: TRIP })

    shop.weather = 'asks for patience'
    for (const trip of [1007, 1008]) await engine.execute(shop.createRide, ride(trip))
    shop.weather = 'well'
    await this.#seedOlderDuplicates()
    await engine.close()
    const unrecorded = createEngine({
      pool: database.pool(),
      pipelines: [shop.legacyImport],
      schema: database.schema,
    })
    await unrecorded.execute(shop.legacyImport, { scope: 'batch', key: 'import-1', input: TRIP })
    await unrecorded.close()

    await this.#intervene()
    for (const [at, which, trip] of [
      ['charge_created/call#1:after', shop.createRide, 1006],
      ['ride_created/commit#1:after', shop.createRideBefore, 901],
    ] as const)
      await dieAt(database, { pipelines: shop.recorded }, at, (doomed) => doomed.execute(which, ride(trip)))
    await this.#age('ride-901', '40 minutes')
    await this.#holdSome()
  }

  async #finishSome(engine: Engine<Database>): Promise<void> {
    const { shop } = this
    for (let nth = 0; nth < FINISHED_RIDES; nth++) {
      const request = { scope: `rider-${nth % 4}`, key: `ride-${2000 + nth}`, input: TRIP }
      await engine.execute(shop.createRide, request)
      for (let times = 0; times < nth % 4; times++) await engine.execute(shop.createRide, request)
    }
    await engine.execute(shop.createRide, { scope: 'rider-1', key: 'ride-2001', input: { card: 'another' } })
    // All that wait by now are dead; what follows waits.
    await buryJobs(engine, '550 <mailbox> unavailable')
    await engine.execute(shop.createRide, ride(1001))
  }

  async #getStuck(engine: Engine<Database>): Promise<void> {
    const { shop } = this
    shop.weather = 'has a bug'
    for (const trip of [1002, 1012, 1022])
      while ((await engine.execute(shop.createRide, ride(trip))).type !== 'stuck');

    shop.weather = 'away'
    await engine.execute(shop.createRide, ride(1003))
    await this.#age('ride-1003', '23.5 hours')
    await this.#expectStuck(engine, 'ride-1003')
    shop.weather = 'well'

    await engine.enqueue(shop.createRide, ride(1004))
    await this.#age('ride-1004', '25 hours')
    await this.#expectStuck(engine, 'ride-1004')

    for (const trip of [1005, 1015])
      await engine.execute(shop.faxPermit, { ...ride(trip), key: `permit-${trip}` })
    await engine.execute(shop.closeDay, { scope: 'ledger', key: 'day-320', input: TRIP })
  }

  async #leaveHostileNames(engine: Engine<Database>): Promise<void> {
    for (const name of HOSTILE_NAMES)
      await engine.execute(this.shop.faxPermit, { scope: name, key: name, input: TRIP })
  }

  async #intervene(): Promise<void> {
    const operator = createOperator({ pool: this.database.pool(), schema: this.database.schema })
    const until = new Date(Date.now() + 30 * 86_400_000)
    await operator.extend({ scope: 'rider-1', key: 'ride-2001' }, berta('The rider disputes it.'), until)
    await operator.reveal({ scope: 'rider-1', key: 'ride-2001' }, berta('Ticket 4711: which card?'))
    await operator.answer({ scope: RIDER, key: 'ride-1022' }, berta('They have <walked>.'), {
      status: 410,
      body: { code: 'too_late' },
    })
  }

  /** As one that had run for an hour would have counted them. */
  async #seedOlderDuplicates(): Promise<void> {
    await this.database.rows(
      `INSERT INTO pawl.duplicates (scope, minute, pipeline, replayed, in_flight, mismatched)
       SELECT scope, date_trunc('minute', clock_timestamp()) - n * interval '1 minute', 'create-ride', ((n * share) % 7) * share, n % share, (n % 11 = 0)::int
         FROM generate_series(3, 50) AS n, (VALUES ('rider-1', 3), ('rider-2', 1), ('<b>rider-3</b>', 2)) AS s (scope, share)`,
    )
  }

  async #holdSome(): Promise<void> {
    const { shop } = this
    const asked = shop.callsUnderWay(3)
    this.#underWay = Promise.all(
      [3001, 3002, 3003].map((trip) => this.#live.execute(shop.createRide, ride(trip))),
    )
    await asked
  }

  async #expectStuck(engine: Engine<Database>, key: string): Promise<void> {
    expect(await engine.resume(await this.keyIdOf(key))).toMatchObject({ type: 'stuck' })
  }

  /** Makes a key older, with all that it remembers. */
  async #age(key: string, by: string): Promise<void> {
    await this.database.rows(
      `UPDATE pawl.idempotency_keys
          SET created_at = created_at - $2::interval, updated_at = updated_at - $2::interval, lease_until = lease_until - $2::interval,
              trail = coalesce((SELECT jsonb_agg(e || jsonb_build_object('t', (e ->> 't')::bigint - (extract(epoch FROM $2::interval) * 1000)::bigint))::json
                         FROM jsonb_array_elements(trail::jsonb) AS e), trail)
        WHERE key = $1`,
      [key, by],
    )
  }
}

function berta(reason: string) {
  return { actor: 'berta@example.com', reason }
}

function ride(trip: number) {
  return { scope: RIDER, key: `ride-${trip}`, input: TRIP }
}
