import pg from 'pg'
import type { KitSchemas } from './kit-schemas.js'
import { createKindOf } from './pass-time.js'
import { type Queryable, textRows } from './text-rows.js'

/** What is recorded of the framework's schema. */
const FRAMEWORK_TABLES = ['idempotency_keys', 'effects', 'staged_jobs', 'interventions']

/**
 * How values are written, whatever the session that writes them has set: the same value is the same text, and can be
 * read back. The kit's own connections have the same settings.
 */
export const TEXT_SETTINGS: Readonly<Record<string, string>> = {
  bytea_output: 'hex',
  datestyle: 'ISO, MDY',
  extra_float_digits: '1',
  intervalstyle: 'postgres',
  timezone: 'UTC',
}

const TRIGGER = 'crash_audit'

/**
 * Creates the tables and the trigger function of the audit. It only appends, and reads nothing: under SERIALIZABLE,
 * transactions that have nothing to do with each other stay that way.
 */
export async function createAudit(pool: pg.Pool, { audit }: KitSchemas): Promise<void> {
  const settings = Object.entries({ ...TEXT_SETTINGS, search_path: 'pg_catalog' })
  // json, not jsonb: a state or a payload may hold NUL, which jsonb refuses.
  await pool.query(`
    CREATE TABLE ${audit}.history (
      seq              bigint GENERATED ALWAYS AS IDENTITY,
      transaction      xid8 NOT NULL,
      application_name text NOT NULL,
      table_name       text NOT NULL,
      framework        boolean NOT NULL,
      op               text NOT NULL,
      before           json,
      after            json,
      before_row       text,
      after_row        text,
      -- What the row itself is marked with: of a savepoint's own, where it was written after one.
      row_xmin         xid,
      written_at       timestamptz NOT NULL
    );
    CREATE INDEX ON ${audit}.history (transaction);
    CREATE TABLE ${audit}.marks (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, snapshot pg_snapshot NOT NULL);
    CREATE FUNCTION ${audit}.record() RETURNS trigger LANGUAGE plpgsql
      ${settings.map(([name, value]) => `SET ${name} = ${pg.escapeLiteral(value)}`).join(' ')} AS $$
    BEGIN
      INSERT INTO ${audit}.history (transaction, application_name, table_name, framework, op, before, after, before_row,
                                    after_row, row_xmin, written_at)
      VALUES (pg_current_xact_id(), current_setting('application_name'), TG_ARGV[0], TG_ARGV[1]::boolean, TG_OP,
              CASE WHEN TG_OP <> 'INSERT' THEN row_to_json(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN row_to_json(NEW) END,
              CASE WHEN TG_OP <> 'INSERT' THEN OLD::text END, CASE WHEN TG_OP <> 'DELETE' THEN NEW::text END,
              CASE WHEN TG_OP <> 'DELETE' THEN NEW.xmin END, clock_timestamp());
      RETURN NULL;
    END $$;
    ${createKindOf(audit)}`)
}

/** Records from here on every row that is written in the framework's tables and in those of the business schema. */
export async function startAudit(pool: pg.Pool, schemas: KitSchemas): Promise<void> {
  const { audit, pawl, business } = schemas
  const tables = [
    ...FRAMEWORK_TABLES.map((name) => ({ schema: pawl, name, framework: true })),
    ...(await readTableNames(pool, business)).map((name) => ({ schema: business, name, framework: false })),
  ]
  const statements = tables.map(
    ({ schema, name, framework }) =>
      `CREATE TRIGGER ${TRIGGER} AFTER INSERT OR UPDATE OR DELETE ON ${schema}.${pg.escapeIdentifier(name)}
         FOR EACH ROW EXECUTE FUNCTION ${audit}.record(${pg.escapeLiteral(name)}, ${framework})`,
  )
  await pool.query(statements.join(';\n'))
}

/** Ordinary and partitioned tables. A partition has the trigger of the table it belongs to. */
async function readTableNames(on: Queryable, schema: string): Promise<string[]> {
  const rows = await textRows(
    on,
    `SELECT c.relname AS name FROM pg_class AS c
      WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.oid`,
    [schema],
  )
  return rows.map((row) => row['name'] ?? '')
}
