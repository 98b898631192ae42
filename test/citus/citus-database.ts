import { randomUUID } from 'node:crypto'
import {
  createOperator,
  type Engine,
  migrate,
  type Operator,
  type Pipeline,
  respond,
  retryLater,
} from '@pawl/core'
import pg from 'pg'
import { describe, inject } from 'vitest'
import { Provider } from '../support/provider.js'
import { randomLetters } from '../support/random-letters.js'
import { createEngine, type Database, pipeline, type RideInput } from '../support/rides.js'

/** A coordinator that has workers. Without one, these tests do not run. */
const CITUS_URL = process.env['CITUS_URL']

export function describeOnCitus(what: string, tests: () => void): void {
  describe.runIf(CITUS_URL !== undefined)(what, tests)
}

/** A worker, as the coordinator knows it. */
export interface Worker {
  readonly nodeid: number
  readonly nodename: string
  readonly nodeport: number
}

const SHARDS = 8

/** Schemas of one test file on a Citus cluster: the framework's tables, and rides that are distributed with them. */
export class CitusDatabase {
  readonly url = CITUS_URL ?? ''
  readonly schema = `c_${randomLetters()}`
  readonly business = `${this.schema}_rides`
  readonly #pools: pg.Pool[] = []
  readonly admin = this.pool()
  readonly operator: Operator = createOperator({ pool: this.admin, schema: this.schema })

  async create(): Promise<void> {
    await migrate(this.admin, { schema: this.schema, layout: 'citus', shards: SHARDS })
    await this.admin.query(`CREATE SCHEMA ${this.business}`)
    // The distribution column has the type and collation of a scope, so that both tables share their shards.
    await this.admin.query(
      `CREATE TABLE ${this.business}.rides (rider text COLLATE "C" NOT NULL, id uuid NOT NULL DEFAULT gen_random_uuid(),
         amount integer NOT NULL, charge_id text, key_id uuid, PRIMARY KEY (rider, id))`,
    )
    await this.admin.query(
      `SELECT create_distributed_table('${this.business}.rides', 'rider', colocate_with => '${this.schema}.idempotency_keys')`,
    )
  }

  async drop(): Promise<void> {
    await this.admin.query(`DROP SCHEMA IF EXISTS ${this.business}, ${this.schema} CASCADE`)
    // Not awaited: clients of an engine that died are never given back.
    for (const pool of this.#pools) if (!pool.ended) void pool.end()
  }

  pool(config: pg.PoolConfig = {}): pg.Pool {
    const options = `-c search_path=${this.business}`
    const pool = new pg.Pool({ connectionString: this.url, options, max: 10, ...config })
    pool.on('error', () => {})
    this.#pools.push(pool)
    return pool
  }

  async rows<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.admin.query<Row>(sql.replaceAll('pawl.', `${this.schema}.`), values)).rows
  }

  workers(): Promise<Worker[]> {
    return this.rows<Worker>(
      `SELECT nodeid, nodename, nodeport FROM pg_dist_node WHERE shouldhaveshards AND noderole = 'primary' ORDER BY nodeid`,
    )
  }

  /** Workers are reached through a proxy, which reads what the servers say to each other. */
  async expectReadableConnections(): Promise<void> {
    const [row] = await this.rows<{ conninfo: string }>(
      `SELECT current_setting('citus.node_conninfo') AS conninfo`,
    )
    if (row?.conninfo.includes('sslmode=disable') === true) return
    throw new Error(`citus.node_conninfo is '${row?.conninfo}'; these tests need sslmode=disable in it.`)
  }

  /** Has the coordinator reach a worker at another port. */
  async pointTo({ nodeid, nodename }: Worker, port: number): Promise<void> {
    await this.rows('SELECT citus_update_node($1, $2, $3, true, 1000)', [nodeid, nodename, port])
    await this.rows('SELECT start_metadata_sync_to_all_nodes()')
  }

  /** A scope whose rows are on that worker. */
  async scopeOn({ nodeport }: Worker): Promise<string> {
    for (;;) {
      const scope = `rider-${randomUUID()}`
      const [row] = await this.rows<{ nodeport: number }>(
        `SELECT nodeport FROM pg_dist_shard_placement
          WHERE shardid = get_shard_id_for_distribution_column('pawl.idempotency_keys', $1::text)`,
        [scope],
      )
      if (row?.nodeport === nodeport) return scope
    }
  }
}

/** The ride of the design, whose statements name the rider: with Citus, they go to the one server that has its rows. */
function riderRideOf(provider: Pick<Provider, 'charge'>): Pipeline<Database, RideInput> {
  return pipeline<RideInput>({ name: 'rider-ride', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const values = { rider: scope, amount: input.amount, key_id: keyId }
      const ride = await tx.insertInto('rides').values(values).returning('id').executeTakeFirstOrThrow()
      return { rideId: ride.id }
    })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) => provider.charge(input.amount, { idempotencyKey, signal }),
      settle: async ({ tx, scope, state, result }) => {
        const ofRide = tx.updateTable('rides').where('rider', '=', scope).where('id', '=', state.rideId)
        await ofRide.set({ charge_id: result.id }).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => retryLater(error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId, nth: 1 })
      await stage('send_invoice', { rideId: state.rideId, nth: 2 })
      return respond(201, { id: state.rideId, charge: state.chargeId })
    })
}

/** One rider's request on a cluster. */
export class CitusRide {
  readonly provider = new Provider(inject('providerUrl'))
  readonly key = randomUUID()
  readonly scope: string
  readonly pipeline: Pipeline<Database, RideInput>
  readonly #database: CitusDatabase

  /** `pipelineOf`: the pipeline to run, for rides that one engine may finish for another; by default, one of its own. */
  constructor(database: CitusDatabase, scope = `rider-${randomUUID()}`, pipelineOf = riderRideOf) {
    this.#database = database
    this.scope = scope
    this.pipeline = pipelineOf(this.provider)
  }

  engine(pool: pg.Pool = this.#database.pool(), leaseMs = 4_000): Engine<Database> {
    const { schema } = this.#database
    return createEngine({ pool, pipelines: [this.pipeline], schema, defaults: { leaseMs } })
  }

  execute(engine: Engine<Database>) {
    return engine.execute(this.pipeline, { scope: this.scope, key: this.key, input: { amount: 1_200 } })
  }

  /** What there is of the request: one of each, if it has been answered once. */
  async traces() {
    const [found] = await this.#database.rows<{
      keys: number
      rides: number
      charged: number
      effects: number
    }>(
      `SELECT (SELECT count(*)::int FROM pawl.idempotency_keys WHERE scope = $1 AND key = $2 AND status = 'finished') AS keys,
              (SELECT count(*)::int FROM rides WHERE rider = $1) AS rides,
              (SELECT count(*)::int FROM rides WHERE rider = $1 AND charge_id IS NOT NULL) AS charged,
              (SELECT count(*)::int FROM pawl.effects WHERE scope = $1 AND key = $2) AS effects`,
      [this.scope, this.key],
    )
    return { ...found, charges: (await this.provider.ledger()).length }
  }
}

/** A request that was answered once, wherever it was interrupted. */
export const ONE_OF_EACH = { keys: 1, rides: 1, charged: 1, effects: 1, charges: 1 }
