import { migrate, respond } from '@pawl/core'
import pg from 'pg'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { IS_PARTITIONED } from '../support/layout.js'
import { createEngine, pipeline } from '../support/rides.js'
import { createNotesDatabase, newRequest, note, notesIn, runnerOf, type Tx } from './note-phases.js'

const database = await createNotesDatabase()
afterAll(() => database.drop())
beforeEach(async () => {
  await database.rows('TRUNCATE notes, pawl.idempotency_keys CASCADE')
})

const PREPARED = { preparedStatements: true }

test('a statement that was skipped does not count as prepared', async () => {
  const pool = database.pool({ max: 1 })
  let connections = 0
  pool.on('connect', () => void connections++)
  // The advance fails, since another has the key by now, so that the COMMIT behind it is never prepared.
  const overtaken = async (tx: Tx) => {
    await note('lost').execute(tx)
    await database.rows('UPDATE pawl.idempotency_keys SET fence = fence + 1')
  }
  const fenced = runnerOf(database, pool, overtaken, PREPARED)
  expect(await fenced.run()).toMatchObject({ type: 'in_flight', fencedOff: true })
  const whole = runnerOf(database, pool, async (tx) => void (await note('kept').execute(tx)), PREPARED)
  expect((await whole.run()).type).toBe('completed')
  expect(await notesIn(database)).toEqual(['kept'])
  expect(connections).toBe(1)
  await Promise.all([fenced.engine.close(), whole.engine.close()])
})

test('two schemas on one connection prepare statements of their own', async () => {
  const second = `${database.schema}_second`
  const once = pipeline<null>({ name: 'once', version: 1 }).finish(() => respond(200))
  const pool = database.pool({ max: 1 })
  await migrate(pool, { schema: second })
  for (const schema of [database.schema, second, database.schema, second]) {
    const engine = createEngine({ pool, pipelines: [once], schema, preparedStatements: true })
    expect((await engine.execute(once, newRequest())).type).toBe('completed')
    await engine.close()
  }
  expect(await database.rows(`SELECT FROM ${second}.idempotency_keys`)).toHaveLength(2)
  await database.rows(`DROP SCHEMA ${second} CASCADE`)
})

test.each([
  ['DISCARD ALL'],
  ['DEALLOCATE ALL'],
  ['ALTER TABLE pawl.idempotency_keys ALTER COLUMN unstuck_at TYPE timestamptz(3)'],
])('prepared statements that can no longer be used are prepared again: %s', async (statement) => {
  const noted = pipeline<null>({ name: 'note', version: 1 })
    .local('noted', async ({ tx }) => void (await note('noted').execute(tx)))
    .finish(() => respond(200))
  const pool = database.pool({ max: 1 })
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, preparedStatements: true })
  expect((await engine.execute(noted, newRequest())).type).toBe('completed')
  await pool.query(statement.replace('pawl.', `${database.schema}.`))
  expect((await engine.execute(noted, newRequest())).type).toBe('completed')
  expect(await notesIn(database)).toEqual(['noted', 'noted'])
  await engine.close()
})

test('under SERIALIZABLE, advances are planned each time, so that they use their index, and everything else stays prepared', async () => {
  const pool = database.pool({ max: 1 })
  const noted = pipeline<null>({ name: 'note', version: 1, isolation: 'serializable' })
    .local('noted', async ({ tx }) => void (await note('noted').execute(tx)))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, preparedStatements: true })
  expect((await engine.execute(noted, newRequest())).type).toBe('completed')
  const { rows } = await pool.query<{ name: string }>('SELECT name FROM pg_prepared_statements ORDER BY name')
  expect(rows.map(({ name }) => name.replace(/_[0-9a-f]{16}$/, ''))).toEqual([
    'pawl_begin',
    'pawl_commit',
    'pawl_insert_key',
    ...(IS_PARTITIONED ? ['pawl_keep_plans'] : []),
    'pawl_lock_timeout',
    // Plans of statements about partitions are kept, which is set in the same statement.
    IS_PARTITIONED ? 'pawl_lock_timeout_unflushed_planned' : 'pawl_lock_timeout_unflushed',
    'pawl_read_committed',
    'pawl_set_timeouts',
  ])
  await engine.close()
})

type Traced = { text: string }

/** What tracers do: older ones give the object that is sent a getter without a setter, and newer ones assign. */
const TRACERS: readonly [string, (query: Traced, text: string) => void][] = [
  ['by a getter', (query, text) => void Object.defineProperty(query, 'text', { get: () => text })],
  ['by assignment', (query, text) => void (query.text = text)],
]

test.each(TRACERS)(
  'a tracer that changes the text of queries, %s, changes nothing else',
  async (_, trace) => {
    class TracedClient extends pg.Client {
      override query = ((...sent: unknown[]): unknown => {
        const [query] = sent as [Traced]
        trace(query, `/* traced */ ${query.text}`)
        return (pg.Client.prototype.query as (...sent: unknown[]) => unknown).apply(this, sent)
      }) as never
    }
    const pool = database.pool({ max: 1, Client: TracedClient })
    const noted = pipeline<null>({ name: 'note', version: 1 })
      .local('noted', async ({ tx }) => void (await note('noted').execute(tx)))
      .finish(() => respond(200))
    for (const preparedStatements of [false, true, true]) {
      const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, preparedStatements })
      expect((await engine.execute(noted, newRequest())).type).toBe('completed')
      await engine.close()
    }
    expect(await notesIn(database)).toEqual(['noted', 'noted', 'noted'])
  },
)
