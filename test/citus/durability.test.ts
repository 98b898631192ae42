import { respond } from '@pawl/core'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createEngine, pipeline } from '../support/rides.js'
import { CitusDatabase, describeOnCitus, type Worker } from './citus-database.js'

/** The server's own statements, not to be repeated on the others, and about a shard as if it were a table of its own. */
const ON_A_SHARD = '-c citus.enable_ddl_propagation=off -c citus.enable_manual_changes_to_shards=on'

const noting = pipeline<null>({ name: 'noting', version: 1 })
  .local('noted', () => ({}))
  .finish(() => respond(200))

describeOnCitus('on Citus, the server that has the key', () => {
  const database = new CitusDatabase()
  beforeAll(() => database.create())
  afterAll(() => database.drop())

  test('writes a reservation, which no flush would reach there, to the disk before it answers', async () => {
    const worker = (await database.workers())[0] as Worker
    const scope = await database.scopeOn(worker)
    const url = new URL(database.url)
    url.port = String(worker.nodeport)
    const client = new pg.Client({ connectionString: url.href, options: ON_A_SHARD })
    await client.connect()
    const [shard] = await database.rows<{ id: string }>(
      `SELECT get_shard_id_for_distribution_column('pawl.idempotency_keys', $1::text) AS id`,
      [scope],
    )
    // Records the synchronous_commit of each write of a key, as its transaction sees it at its end.
    const { business, schema } = database
    await client.query(`
      CREATE TABLE ${business}.written (how text, point text, seq serial);
      CREATE FUNCTION ${business}.write_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO ${business}.written (how, point) VALUES (current_setting('synchronous_commit'), NEW.recovery_point);
        RETURN NULL;
      END $$;
      CREATE CONSTRAINT TRIGGER written AFTER INSERT OR UPDATE ON ${schema}.idempotency_keys_${shard?.id}
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ${business}.write_down()`)
    const engine = createEngine({ pool: database.pool(), pipelines: [noting], schema })
    expect((await engine.execute(noting, { scope, key: 'one', input: null })).type).toBe('completed')
    await engine.close()
    const { rows } = await client.query<{ how: string; point: string }>(
      `SELECT point, how FROM ${business}.written ORDER BY seq`,
    )
    expect(rows.map(({ point, how }) => `${point} ${how}`)).toEqual(['started on', 'noted on', 'finished on'])
    await client.query(`DROP TABLE ${business}.written; DROP FUNCTION ${business}.write_down CASCADE`)
    await client.end()
  })
})
