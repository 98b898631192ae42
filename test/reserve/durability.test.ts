import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { createEngine, pipeline } from '../support/rides.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
afterAll(() => database.drop())

// Records the synchronous_commit of each write of a key, as its transaction sees it at its end.
await database.rows('CREATE TABLE pawl.written (how text, point text, seq serial)')
await database.rows(
  `CREATE FUNCTION pawl.write_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
     INSERT INTO pawl.written (how, point) VALUES (current_setting('synchronous_commit'), NEW.recovery_point);
     RETURN NULL;
   END $$`,
)
await database.rows(
  `CREATE CONSTRAINT TRIGGER written AFTER INSERT OR UPDATE ON pawl.idempotency_keys
     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.write_down()`,
)
beforeEach(() => database.rows('TRUNCATE pawl.written'))

const request = () => ({ scope: 's', key: randomUUID(), input: null })
const written = async () =>
  (
    await database.rows<{ how: string; point: string }>('SELECT how, point FROM pawl.written ORDER BY seq')
  ).map(({ how, point }) => `${point} ${how}`)

const local = pipeline<null>({ name: 'local', version: 1 })
  .local('noted', () => ({}))
  .foreign('called', { call: () => null })
  .finish(() => respond(200))
const foreign = pipeline<null>({ name: 'foreign', version: 1 })
  .foreign('called', { call: () => null })
  .finish(() => respond(200))

const optionsOn = (options = '') => ({
  pool: database.pool({ options: `-c search_path=${database.businessSchema} ${options}` }),
  pipelines: [local, foreign],
  schema: database.schema,
})
const start = (options = '') => createEngine(optionsOn(options))

test('only a reservation that is followed by another COMMIT before anything else happens is committed asynchronously', async () => {
  const engine = start()
  expect((await engine.execute(local, request())).type).toBe('completed')
  expect(await written()).toEqual(['started off', 'noted on', 'called on', 'finished on'])
  await engine.close()
})

test('a reservation that is followed by a call is durable before the call', async () => {
  const engine = start()
  expect((await engine.execute(foreign, request())).type).toBe('completed')
  expect(await written()).toEqual(['started on', 'called on', 'finished on'])
  await engine.close()
})

test('a reservation that was enqueued is durable', async () => {
  const engine = start()
  await engine.enqueue(local, request())
  expect(await written()).toEqual(['started on'])
  await engine.close()
})

test('a reservation that another request has made is written out before enqueue promises to run it', async () => {
  const stops = engineWithStops(optionsOn(), 'noted/begin#1:before')
  const asked = request()
  const running = stops.engine.execute(local, asked)
  await stops.stops[0].reached
  // Also when the test fails, since its end would otherwise wait for the engine for ever.
  onTestFinished(() => stops.stops[0].go())
  const steps: string[] = []
  const engine = createProbedEngine(
    optionsOn(),
    ({ step, when }) => void (when === 'after' && steps.push(step)),
  )
  const [before] = await database.rows<{ lsn: string }>('SELECT pg_current_wal_insert_lsn() AS lsn')
  expect(await engine.enqueue(local, asked)).toMatchObject({ type: 'enqueued' })
  expect(steps).toEqual(['insert_key', 'find_key', 'write_out'])
  expect(
    await database.rows('SELECT pg_current_wal_flush_lsn() >= $1::pg_lsn AS written', [before?.lsn]),
  ).toEqual([{ written: true }])
  stops.stops[0].go()
  expect((await running).type).toBe('completed')
  await Promise.all([engine.close(), stops.engine.close()])
})

test("a durable reservation is as durable as the database's own setting asks for", async () => {
  const engine = start('-c synchronous_commit=local')
  expect((await engine.execute(foreign, request())).type).toBe('completed')
  expect(await written()).toEqual(['started local', 'called local', 'finished local'])
  await engine.close()
})

test('the setting does not stay with the connection', async () => {
  const pool = database.pool({ max: 1 })
  const engine = createEngine({ pool, pipelines: [local], schema: database.schema })
  await engine.execute(local, request())
  expect((await pool.query('SHOW synchronous_commit')).rows).toEqual([{ synchronous_commit: 'on' }])
  await engine.close()
})
