import { expect, test } from 'vitest'
import type { KitDatabase } from '../../packages/crash-kit/src/database/kit-database.js'
import { connect, insertKey, kitWith, values } from './kit-with.js'
import { keyReference } from '../support/layout.js'

/** All rows of a table, in a fixed order. */
const rowsOf = (kit: KitDatabase, table: string): Promise<unknown[]> =>
  values(kit, `SELECT row_to_json(t)::text FROM ${table} AS t ORDER BY 1`)

const TABLES = `
  CREATE TABLE riders (id integer PRIMARY KEY, name text UNIQUE);
  CREATE TABLE rides (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rider   integer NOT NULL REFERENCES riders ON UPDATE CASCADE ON DELETE CASCADE,
    amount  numeric NOT NULL,
    doubled numeric GENERATED ALWAYS AS (amount * 2) STORED,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE TABLE log (line text, weight double precision);
  INSERT INTO riders VALUES (1, 'ada'), (2, 'bob');
  INSERT INTO rides (rider, amount) VALUES (1, 10.50), (2, 20);
  INSERT INTO log VALUES ('same', 0.1), ('same', 0.1)`

test('losing commits takes back inserts, updates and deletes, the last one first', async () => {
  const kit = await kitWith(TABLES)
  const client = await connect(kit, 'client')
  await client.query(`UPDATE rides SET amount = 11 WHERE rider = 1`)
  const before = await Promise.all(['riders', 'rides', 'log'].map((table) => rowsOf(kit, table)))
  const mark = await kit.mark()
  await client.query(`INSERT INTO riders VALUES (3, 'cy')`)
  await client.query(`INSERT INTO rides (rider, amount) VALUES (3, 30)`)
  await client.query(`UPDATE rides SET amount = amount + 1, rider = 3`)
  await client.query(`UPDATE rides SET amount = amount * 2`)
  await client.query(
    `BEGIN; DELETE FROM rides WHERE amount > 40; INSERT INTO rides (rider, amount) VALUES (1, 1); COMMIT`,
  )
  // Names are unique, so changes undone in another order would collide.
  await client.query(`UPDATE riders SET name = 'x' WHERE id = 1`)
  await client.query(`UPDATE riders SET name = 'ada' WHERE id = 2`)
  // There is no primary key, and rows are equal: one more is added, and removed again when that is taken back.
  await client.query(`INSERT INTO log VALUES ('same', 0.1)`)
  await client.query(`DELETE FROM log WHERE ctid = (SELECT min(ctid) FROM log)`)
  await client.query(`UPDATE log SET weight = 0.30000000000000004`)
  await client.query(`INSERT INTO log VALUES (NULL, 'NaN')`)

  await kit.loseCommitsSince(mark)
  expect(await Promise.all(['riders', 'rides', 'log'].map((table) => rowsOf(kit, table)))).toEqual(before)
})

test('losing commits takes back what foreign keys did', async () => {
  const kit = await kitWith(`${TABLES};
    CREATE TABLE notes (id integer PRIMARY KEY, rider text NOT NULL DEFAULT 's', ${keyReference('pawl')});
    CREATE TABLE pages (note integer REFERENCES notes ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)`)
  const client = await connect(kit, 'client')
  const keyId = await insertKey(client, kit, 'k')
  await client.query(`INSERT INTO notes (id, key_id) VALUES (1, '${keyId}')`)
  await client.query('INSERT INTO pages VALUES (1), (1)')
  const tables = ['riders', 'rides', 'notes', 'pages']
  const before = await Promise.all(tables.map((table) => rowsOf(kit, table)))
  const mark = await kit.mark()
  await client.query('UPDATE riders SET id = 7 WHERE id = 1')
  await client.query('DELETE FROM riders')
  await client.query(`DELETE FROM ${kit.pawlSchema}.idempotency_keys`)
  await client.query('DELETE FROM notes')
  expect(await rowsOf(kit, 'pages')).toEqual([])

  await kit.loseCommitsSince(mark)
  expect(await Promise.all(tables.map((table) => rowsOf(kit, table)))).toEqual(before)
  expect(await kit.keyRow('s', 'k')).toMatchObject({ id: keyId })
  // They hold again.
  await expect(client.query('INSERT INTO rides (rider, amount) VALUES (9, 1)')).rejects.toThrow(
    'rides_rider_fkey',
  )
})

test("the application's triggers do not run for it, and are enabled afterwards", async () => {
  const kit = await kitWith(`
    CREATE TABLE notes (id integer PRIMARY KEY, changes integer NOT NULL DEFAULT 0);
    CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN NEW.changes = OLD.changes + 1; RETURN NEW; END $$;
    CREATE TRIGGER counted BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION count_change();
    CREATE FUNCTION count_ten() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN NEW.changes = NEW.changes + 10; RETURN NEW; END $$;
    CREATE TRIGGER off BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION count_ten();
    ALTER TABLE notes DISABLE TRIGGER off;
    INSERT INTO notes VALUES (1)`)
  const client = await connect(kit, 'client')
  await client.query('UPDATE notes SET id = 1')
  const mark = await kit.mark()
  await client.query('UPDATE notes SET id = 2')
  await kit.loseCommitsSince(mark)
  expect(await rowsOf(kit, 'notes')).toEqual(['{"id":1,"changes":1}'])
  await client.query('UPDATE notes SET id = 3')
  expect(await rowsOf(kit, 'notes')).toEqual(['{"id":3,"changes":2}'])
})

test('the history contains neither what was lost nor the loss, and goes on', async () => {
  const kit = await kitWith(TABLES)
  const client = await connect(kit, 'client')
  const first = await kit.mark()
  await client.query(`INSERT INTO riders VALUES (3, 'kept')`)
  const second = await kit.mark()
  await client.query(`INSERT INTO riders VALUES (4, 'lost')`)
  await kit.loseCommitsSince(second)
  await client.query(`INSERT INTO riders VALUES (5, 'new')`)

  const names = (await kit.commitsSince(first)).flatMap(({ changes }) =>
    changes.map(({ after }) => after?.['name']),
  )
  expect(names).toEqual(['kept', 'new'])
  expect(await values(kit, 'SELECT name FROM riders ORDER BY id')).toEqual(['ada', 'bob', 'kept', 'new'])
})

test('jobs and effects are lost with the key', async () => {
  const kit = await kitWith()
  const client = await connect(kit, 'client')
  const mark = await kit.mark()
  const id = await insertKey(client, kit, 'k')
  const staged = `INSERT INTO ${kit.pawlSchema}.staged_jobs (id, scope, seq, name, payload, key_id) VALUES (gen_random_uuid(), 's', 1, 'j', '{}', '${id}')`
  await client.query(staged)
  await client.query(`UPDATE ${kit.pawlSchema}.staged_jobs SET attempts = 1`)
  const later = await kit.mark()
  const jobs = await rowsOf(kit, `${kit.pawlSchema}.staged_jobs`)
  await client.query(`DELETE FROM ${kit.pawlSchema}.staged_jobs`)
  await kit.loseCommitsSince(later)
  expect(await rowsOf(kit, `${kit.pawlSchema}.staged_jobs`)).toEqual(jobs)
  await kit.loseCommitsSince(mark)
  expect(await rowsOf(kit, `${kit.pawlSchema}.staged_jobs`)).toEqual([])
  expect(await kit.keyRow('s', 'k')).toBeNull()
})

test('losing commits fails while an actor is in the middle of a transaction, and changes nothing', async () => {
  const kit = await kitWith(TABLES)
  const client = await connect(kit, 'client')
  const mark = await kit.mark()
  await client.query(`INSERT INTO riders VALUES (3, 'cy')`)
  await client.query(`BEGIN; INSERT INTO riders VALUES (4, 'di')`)
  await expect(kit.loseCommitsSince(mark)).rejects.toMatchObject({ code: 'PAWL_KIT_LOCKED' })
  await client.query('ROLLBACK')
  expect(await values(kit, 'SELECT id FROM riders ORDER BY id')).toEqual([1, 2, 3])
  await kit.loseCommitsSince(mark)
  expect(await values(kit, 'SELECT id FROM riders ORDER BY id')).toEqual([1, 2])
})

test('losing commits fails when a row is not as the history left it, and changes nothing', async () => {
  const kit = await kitWith(TABLES)
  const client = await connect(kit, 'client')
  const mark = await kit.mark()
  await client.query(`INSERT INTO riders VALUES (3, 'cy')`)
  await client.query(`INSERT INTO log VALUES ('lost', 1)`)
  await client.query('TRUNCATE log')
  await expect(kit.loseCommitsSince(mark)).rejects.toMatchObject({ code: 'PAWL_KIT_CANNOT_UNDO' })
  expect(await values(kit, 'SELECT id FROM riders ORDER BY id')).toEqual([1, 2, 3])
  expect(await kit.commitsSince(mark)).toHaveLength(2)
})
