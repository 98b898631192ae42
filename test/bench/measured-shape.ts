import { randomBytes, randomUUID } from 'node:crypto'
import { type Engine, migrate, pawl, respond } from '@pawl/core'
import type { DevPostgres } from '@pawl/dev-postgres'
import pg from 'pg'
import { Proxy } from '../../bench/src/measure/proxy.js'

/** A pipeline without queries of its own, so that everything that is measured is Pawl's. */
export interface Shape {
  readonly locals: number
  readonly calls: number
  readonly jobs: number
  readonly inputBytes: number
  readonly bodyBytes: number
  readonly commits: 'each' | 'fewest'
}

/** Bytes per row. */
interface TableBytes {
  readonly table: number
  readonly indexes: number
}

/** What a request of that shape has taken. */
export interface Measured {
  readonly logBytes: number
  readonly replayLogBytes: number
  readonly statements: number
  readonly roundTrips: number
  readonly keys: TableBytes
  readonly effects: TableBytes
  readonly jobs: TableBytes
  /** Of an index, by its name. */
  readonly entries: Readonly<Record<string, number>>
}

const CLIENTS = 8

/** Not compressible, as a body that is compressed or encrypted: the most that it can take. */
const text = (bytes: number): string => randomBytes(bytes).toString('base64').slice(0, bytes)
/** `{"text":""}` */
const AROUND_TEXT = 11

function pipelineOf({ locals, calls, jobs, bodyBytes }: Shape) {
  // Phases are added in loops, of which no type can follow the state.
  let builder = pawl().pipeline<{ text: string }>({ name: 'create-ride', version: 1 }) as never as AnyBuilder
  for (let at = 0; at < locals; at++)
    builder = builder.local(`local_${at}`, () => ({ [`ride_${at}`]: randomUUID() }))
  for (let at = 0; at < calls; at++) {
    builder = builder.foreign(`call_${at}`, {
      call: () => ({ id: `ch_${randomUUID()}` }),
      settle: ({ result }) => ({ [`charge_${at}`]: result.id }),
      reference: (result) => result.id,
    })
  }
  return builder.finish(async ({ stage }) => {
    for (let at = 0; at < jobs; at++) await stage('send_receipt', { ride: randomUUID() })
    return respond(201, { text: text(bodyBytes - AROUND_TEXT) })
  })
}

interface Result {
  readonly id: string
}

interface AnyBuilder {
  local(name: string, run: () => unknown): AnyBuilder
  foreign(
    name: string,
    phase: {
      call: () => Result
      settle: (given: { result: Result }) => unknown
      reference: (result: Result) => string
    },
  ): AnyBuilder
  finish(
    run: (given: { stage: (name: string, payload: unknown) => Promise<void> }) => Promise<unknown>,
  ): never
}

/** Runs requests on tables of their own, which are vacuumed whenever they have grown by a fifth. */
export async function measure(postgres: DevPostgres, shape: Shape, requests: number): Promise<Measured> {
  const schema = `shape_${randomBytes(4).toString('hex')}`
  const pool = new pg.Pool({ connectionString: postgres.url, max: CLIENTS })
  await migrate(pool, { schema })
  const pipeline = pipelineOf(shape)
  const input = { text: text(shape.inputBytes - AROUND_TEXT) }
  const open = (on: pg.Pool): Engine<object> =>
    pawl<object>().createEngine({
      pool: on,
      pipelines: [pipeline],
      schema,
      preparedStatements: true,
      strict: false,
      defaults: { commits: shape.commits },
    })
  const send = async (engine: Engine<object>, keys: readonly string[]): Promise<void> => {
    const left = [...keys]
    const client = async (): Promise<void> => {
      for (let key = left.pop(); key !== undefined; key = left.pop()) {
        const { type } = await engine.execute(pipeline, { scope: `rider-${key.slice(0, 3)}`, key, input })
        if (type !== 'completed' && type !== 'replayed') throw new Error(`The request was ${type}.`)
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, client))
  }
  const engine = open(pool)
  const { logBytes, keys } = await grow(pool, schema, requests, (some) => send(engine, some))
  const before = await logOf(pool)
  await send(engine, keys.slice(0, REPLAYED))
  const replayLogBytes = ((await logOf(pool)) - before) / REPLAYED
  const bytes = async (table: string) => bytesPerRow(pool, schema, table, requests)
  const measured = {
    logBytes,
    replayLogBytes,
    keys: await bytes('idempotency_keys'),
    effects: await bytes('effects'),
    jobs: await bytes('staged_jobs'),
    entries: await bytesPerEntry(pool, schema, requests),
    ...(await countTraffic(postgres, open, send)),
  }
  await engine.close()
  await pool.end()
  return measured
}

const REPLAYED = 200
const STEPS = 5

/** The log is that of the second half: by then, whole pages are rare and the row's statements prepared. */
async function grow(
  pool: pg.Pool,
  schema: string,
  requests: number,
  send: (keys: readonly string[]) => Promise<void>,
): Promise<{ logBytes: number; keys: readonly string[] }> {
  const sent: string[] = []
  let logBytes = 0
  for (let step = 0; step < STEPS; step++) {
    const keys = Array.from({ length: requests / STEPS }, () => randomUUID())
    const before = await logOf(pool)
    await send(keys)
    logBytes = ((await logOf(pool)) - before) / keys.length
    sent.push(...keys)
    await pool.query(`VACUUM "${schema}".idempotency_keys`)
  }
  return { logBytes, keys: sent }
}

async function logOf(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ bytes: string }>(
    `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS bytes`,
  )
  return Number(rows[0]?.bytes)
}

async function bytesPerRow(pool: pg.Pool, schema: string, table: string, rows: number): Promise<TableBytes> {
  const { rows: found } = await pool.query<{ bytes: string; indexes: string }>(
    `SELECT pg_table_size(t) AS bytes, pg_indexes_size(t) AS indexes
       FROM (SELECT format('%I.%I', $1::text, $2::text)::regclass AS t) AS named`,
    [schema, table],
  )
  return { table: Number(found[0]?.bytes) / rows, indexes: Number(found[0]?.indexes) / rows }
}

async function bytesPerEntry(pool: pg.Pool, schema: string, rows: number): Promise<Record<string, number>> {
  const { rows: found } = await pool.query<{ name: string; bytes: string }>(
    `SELECT c.relname AS name, pg_relation_size(c.oid) AS bytes FROM pg_class AS c
      WHERE c.relkind = 'i' AND c.relnamespace = $1::regnamespace`,
    [schema],
  )
  return Object.fromEntries(found.map(({ name, bytes }) => [name, Number(bytes) / rows]))
}

const COUNTED = 5

async function countTraffic(
  postgres: DevPostgres,
  open: (pool: pg.Pool) => Engine<object>,
  send: (engine: Engine<object>, keys: readonly string[]) => Promise<void>,
): Promise<Pick<Measured, 'statements' | 'roundTrips'>> {
  const proxy = new Proxy(postgres.url)
  // Far enough away that what is sent together arrives together.
  proxy.delayBy(1)
  const url = new URL(postgres.url)
  url.hostname = '127.0.0.1'
  url.port = String(await proxy.listen())
  const pool = new pg.Pool({ connectionString: url.href, max: 1 })
  const engine = open(pool)
  const sendOne = () => send(engine, [randomUUID()])
  await sendOne()
  await sendOne()
  const before = proxy.traffic()
  for (let at = 0; at < COUNTED; at++) await sendOne()
  const after = proxy.traffic()
  await engine.close()
  await pool.end()
  proxy.close()
  return {
    statements: (after.statements - before.statements) / COUNTED,
    roundTrips: (after.roundTrips - before.roundTrips) / COUNTED,
  }
}
