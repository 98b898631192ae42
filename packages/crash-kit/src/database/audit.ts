import pg from 'pg'
import type { KitSchemas } from './kit-schemas.js'
import { createKindOf } from './pass-time.js'
import { type Queryable, textRows } from './text-rows.js'

/** The framework's tables whose changes are recorded. */
const FRAMEWORK_TABLES = ['idempotency_keys', 'effects', 'staged_jobs', 'interventions', 'scope_usage']

/**
 * How values are written as text, whatever the writing session has set: equal values become equal text, which can be read back.
 * The kit's own connections have the same settings.
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
 * Creates the tables and the trigger function of the audit. It only appends and reads nothing, so that under SERIALIZABLE,
 * unrelated transactions stay unrelated.
 */
export async function createAudit(pool: pg.Pool, { audit }: KitSchemas): Promise<void> {
  const settings = Object.entries({ ...TEXT_SETTINGS, search_path: 'pg_catalog' })
  // json, not jsonb: a state or a payload may contain NUL, which jsonb refuses.
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
      -- The transaction id that the row itself carries: a subtransaction's, if it was written after a savepoint.
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

/** From here on, records every row that is written to the framework's tables and to those of the business schema. */
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

/** Reads the names of ordinary and partitioned tables. A partition has the trigger of the table it belongs to. */
async function readTableNames(on: Queryable, schema: string): Promise<string[]> {
  const rows = await textRows(
    on,
    `SELECT c.relname AS name FROM pg_class AS c
      WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.oid`,
    [schema],
  )
  return rows.map((row) => row['name'] ?? '')
}
