import type pg from 'pg'
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { randomLetters } from '../support/random-letters.js'
import { TestDatabase } from '../support/test-database.js'
import { Move } from './partition-page.js'

const database = await TestDatabase.createNew()
afterAll(() => database.drop())

let move: Move
beforeEach(async () => {
  move = await Move.begin(database)
  onTestFinished(() => move.drop())
  await move.rows(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder)
     SELECT 's-' || n, 'k', 'p', 1, 'hash', sha256(''), 1, '{}', gen_random_uuid() FROM generate_series(1, 8) AS n;
     INSERT INTO pawl.staged_jobs (id, key_id, seq, scope, name, payload)
     SELECT gen_random_uuid(), id, 1, scope, 'mail', '{}' FROM pawl.idempotency_keys;
     INSERT INTO pawl.effects (key_id, fence, version, scope, key, pipeline, phase, effect, provider_key)
     SELECT id, 1, 1, scope, key, 'p', 'x', 'x', 'x' FROM pawl.idempotency_keys;
     INSERT INTO pawl.interventions (key_id, scope, key, action, actor) SELECT id, scope, key, 'x', 'x' FROM pawl.idempotency_keys`,
  )
  await move.makeTables()
})

/** A session that gives up in the end, instead of waiting for the test. */
async function session(): Promise<{ query: (sql: string) => Promise<pg.QueryResult> }> {
  const client = await database.pool({ max: 1, statement_timeout: 20_000 }).connect()
  onTestFinished(() => client.release(true))
  return { query: (sql) => client.query(move.sql(sql)) }
}

async function mirrorAndCopy(): Promise<void> {
  await move.run('mirror every write')
  await move.run('copy what is older')
  await move.run('copy the tables')
}

const touch = `UPDATE pawl.idempotency_keys SET revision = revision + 1 WHERE scope = 's-1'`
const stateOf = ({ code }: { code?: string }): string | undefined => code

describe('mirroring', () => {
  test('gives up, and leaves nothing behind, while a transaction that has written goes on', async () => {
    const writer = await session()
    await writer.query(`BEGIN; ${touch}`)
    const client = await database.pool({ max: 1, statement_timeout: 20_000 }).connect()
    onTestFinished(() => client.release(true))
    expect(await move.run('mirror every write', client).catch(stateOf)).toBe('55P03')
    await writer.query('COMMIT')
    await mirrorAndCopy()
    expect(await move.run('compare')).toEqual([])
  })

  test('makes the new row what the old one is, also where a trigger of yours writes it once more', async () => {
    await move.rows(`
      CREATE FUNCTION pawl.again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE pawl.idempotency_keys SET last_error = 'again', revision = revision + 1 WHERE scope = NEW.scope AND key = NEW.key;
        RETURN NULL;
      END $$;
      CREATE TRIGGER again AFTER UPDATE ON pawl.idempotency_keys
        FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION pawl.again()`)
    await mirrorAndCopy()
    await move.rows(touch)
    expect(await move.run('compare')).toEqual([])
    const [row] = await move.rows(`SELECT last_error FROM pawl_new.idempotency_keys WHERE scope = 's-1'`)
    expect(row).toEqual({ last_error: 'again' })
  })

  test.each([
    ['an update', touch],
    ['a delete', `DELETE FROM pawl.idempotency_keys WHERE scope = 's-1'`],
  ])('under REPEATABLE READ, %s that cannot see the copy is tried again', async (_, write) => {
    await move.run('mirror every write')
    const phase = await session()
    await phase.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pawl.effects')
    await move.run('copy what is older')
    await move.run('copy the tables')
    expect(await phase.query(write).catch(stateOf)).toBe('40001')
    await phase.query(`ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; ${write}; COMMIT`)
    expect(await move.run('compare')).toEqual([])
  })

  test('under REPEATABLE READ, a row that is not copied yet can be deleted', async () => {
    await move.run('mirror every write')
    await move.rows(
      `BEGIN ISOLATION LEVEL REPEATABLE READ; DELETE FROM pawl.idempotency_keys WHERE scope = 's-1'; COMMIT`,
    )
    await move.run('copy what is older')
    await move.run('copy the tables')
    expect(await move.run('compare')).toEqual([])
  })
})

describe('the copy', () => {
  test('waits for a writer of a row, and takes what it has written; a row that it deletes is left out', async () => {
    await move.run('mirror every write')
    await move.run('copy what is older')
    const writer = await session()
    await writer.query(`BEGIN; ${touch}; DELETE FROM pawl.idempotency_keys WHERE scope = 's-2'`)
    const copied = move.run('copy the tables')
    const waits = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%pawl_new.copy%' AND query LIKE 'CALL%'`
    while ((await move.rows(waits)).length === 0);
    await writer.query('COMMIT')
    await copied
    expect(await move.run('compare')).toEqual([])
  })

  test('keeps values that are stored outside of their rows', async () => {
    const large = `UPDATE pawl.idempotency_keys SET revision = revision + 1, response_body = (
      SELECT string_agg(sha256(n::text::bytea), '') FROM generate_series(1, 4000) AS n)`
    await move.rows(`${large} WHERE scope IN ('s-1', 's-2')`)
    await mirrorAndCopy()
    await move.rows(`${large} WHERE scope = 's-3'; ${touch}`)
    await move.run('swap')
    await move.run('remove what is left')
    const sizes = await move.rows(
      `SELECT length(response_body) AS bytes FROM pawl.idempotency_keys WHERE scope < 's-4' ORDER BY scope`,
    )
    expect(sizes).toEqual([{ bytes: 128_000 }, { bytes: 128_000 }, { bytes: 128_000 }])
  })
})

test.each(['idempotency_keys', 'effects', 'staged_jobs', 'interventions'])(
  'the comparison shows a row of %s that is missing, or left over',
  async (table) => {
    await mirrorAndCopy()
    await move.rows(`DELETE FROM pawl_new.${table} WHERE scope = 's-1'`)
    await move.rows(
      `ALTER TABLE pawl.${table} DISABLE TRIGGER mirror; DELETE FROM pawl.${table} WHERE scope = 's-2'`,
    )
    expect(await move.run('compare')).toEqual([
      expect.objectContaining({ table, scope: 's-1' }),
      expect.objectContaining({ table, scope: 's-2' }),
    ])
  },
)

describe('the swap', () => {
  test('waits for no reader, and a writer that waits for it goes on in the new tables', async () => {
    await mirrorAndCopy()
    const reader = await session()
    await reader.query('BEGIN; SELECT 1 FROM pawl.idempotency_keys')
    const writer = await session()
    await writer.query(`PREPARE touch AS ${touch}`)
    await writer.query('EXECUTE touch')
    const holder = await session()
    await holder.query('BEGIN; LOCK TABLE pawl.interventions IN SHARE MODE')
    const swapped = move.run('swap')
    const waits = (query: string) =>
      move.rows(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1`, [
        move.sql(query),
      ])
    while ((await waits('%pawl_new RENAME%')).length === 0);
    const written = writer.query('EXECUTE touch')
    while ((await waits('EXECUTE touch')).length === 0);
    await holder.query('COMMIT')
    await swapped
    await written
    expect(await move.rows(`SELECT revision FROM pawl.idempotency_keys WHERE scope = 's-1'`)).toEqual([
      { revision: '3' },
    ])
    expect(await reader.query('SELECT 1 FROM pawl_old.idempotency_keys')).toMatchObject({ rowCount: 8 })
    // Whoever still has the old name is told.
    await expect(move.rows(touch.replace('pawl', 'pawl_old'))).rejects.toThrow(move.sql('pawl_new'))
  })

  test('changes nothing while a transaction that has written goes on', async () => {
    await mirrorAndCopy()
    const writer = await session()
    await writer.query(`BEGIN; ${touch}`)
    expect(await move.run('swap').catch(stateOf)).toBe('55P03')
    await writer.query('COMMIT')
    expect(await move.run('compare')).toEqual([])
    await move.run('swap')
  })
})

test('a role that may use the old tables, and nothing else, may use the new ones', async () => {
  const role = `app_${randomLetters()}`
  await move.rows(`
    CREATE ROLE ${role}; GRANT USAGE ON SCHEMA pawl TO ${role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pawl TO ${role}`)
  onTestFinished(async () => void (await move.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)))
  await move.run('copy the rights')
  await mirrorAndCopy()
  const app = await session()
  await app.query(`SET ROLE ${role}`)
  await app.query(touch)
  expect(await move.run('compare')).toEqual([])
  await move.run('swap')
  await app.query(touch)
  for (const table of ['idempotency_keys', 'effects', 'staged_jobs', 'interventions', 'keys'])
    expect(await app.query(`SELECT 1 FROM pawl.${table}`)).toMatchObject({ rowCount: 8 })
})

test('what belongs to the old tables is listed, and keys that are gone do not keep a foreign key from being created', async () => {
  const business = database.businessSchema
  const key = `(SELECT id FROM pawl.idempotency_keys WHERE scope = 's-1')`
  await move.rows(`
    CREATE TABLE rides (id integer PRIMARY KEY, rider text NOT NULL, key_id uuid REFERENCES pawl.idempotency_keys (id) ON DELETE SET NULL);
    INSERT INTO rides VALUES (1, 's-1', ${key}), (2, 's-2', (SELECT id FROM pawl.idempotency_keys WHERE scope = 's-2'));
    CREATE VIEW stuck AS SELECT key FROM pawl.idempotency_keys WHERE status = 'stuck';
    CREATE FUNCTION pawl.say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
    CREATE TRIGGER say AFTER INSERT ON pawl.effects EXECUTE FUNCTION pawl.say();
    CREATE POLICY mine ON pawl.staged_jobs`)
  onTestFinished(async () => void (await move.rows('DROP TABLE IF EXISTS rides')))
  expect(await move.run('what else belongs to the old tables')).toEqual([
    { kind: 'foreign key', name: 'rides.rides_key_id_fkey' },
    { kind: 'policy', name: 'staged_jobs.mine' },
    { kind: 'trigger', name: 'effects.say' },
    { kind: 'view', name: 'stuck' },
  ])
  await mirrorAndCopy()
  await move.rows('ALTER TABLE rides DROP CONSTRAINT rides_key_id_fkey')
  // As the reaper does, when nothing sets the reference to null.
  await move.rows(`DELETE FROM pawl.idempotency_keys WHERE scope = 's-1'`)
  await move.run('swap')
  await move.rows(`SET search_path = ${business}`)
  await move.run('refer to keys again')
  expect(await move.rows('SELECT id FROM rides WHERE key_id IS NULL')).toEqual([{ id: 1 }])
  await move.rows(`DELETE FROM pawl.idempotency_keys WHERE scope = 's-2'`)
  expect(await move.rows('SELECT id FROM rides WHERE key_id IS NULL ORDER BY id')).toEqual([
    { id: 1 },
    { id: 2 },
  ])
})
