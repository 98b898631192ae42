import type { TestDatabase } from '../support/test-database.js'

const TABLES = ['idempotency_keys', 'effects', 'staged_jobs', 'interventions']

/** A row as it was written. */
export interface WrittenRow {
  readonly table: string
  readonly row: Record<string, unknown>
}

/** Every column of Pawl's tables that holds a text: `table.column`, however the text is stored. */
export async function columnsWith(database: TestDatabase, text: string): Promise<string[]> {
  const rows = await Promise.all(
    TABLES.map((table) =>
      database.rows<WrittenRow>(`SELECT '${table}' AS table, to_jsonb(t) AS row FROM pawl.${table} AS t`),
    ),
  )
  return columnsOf(rows.flat(), text)
}

/** The same of rows, such as all that were ever written. */
export function columnsOf(rows: readonly WrittenRow[], text: string): string[] {
  const found = new Set<string>()
  for (const { table, row } of rows)
    for (const [column, value] of Object.entries(row))
      if (readings(value).some((reading) => reading.includes(text))) found.add(`${table}.${column}`)
  return [...found].toSorted()
}

/** Keeps every row that is written from now on, also those that are overwritten at once. Returns a function that ends it, and returns them. */
export async function watchWrites(database: TestDatabase): Promise<() => Promise<WrittenRow[]>> {
  const { businessSchema } = database
  await database.rows(`CREATE TABLE ${businessSchema}.written ("table" text, "row" jsonb);
    CREATE FUNCTION ${businessSchema}.write_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO ${businessSchema}.written VALUES (regexp_replace(TG_TABLE_NAME, '_[0-9]+$', ''), to_jsonb(NEW));
      RETURN NULL; END $$`)
  for (const table of TABLES)
    await database.rows(`CREATE TRIGGER write_down AFTER INSERT OR UPDATE ON pawl.${table}
      FOR EACH ROW EXECUTE FUNCTION ${businessSchema}.write_down()`)
  return async () => {
    const rows = await database.rows<WrittenRow>(`SELECT * FROM ${businessSchema}.written`)
    for (const table of TABLES) await database.rows(`DROP TRIGGER write_down ON pawl.${table}`)
    await database.rows(`DROP FUNCTION ${businessSchema}.write_down(); DROP TABLE ${businessSchema}.written`)
    return rows
  }
}

/** A value as it is, and as bytes that are written in hexadecimal or base64 digits. */
function readings(value: unknown): string[] {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const hex = [...text.matchAll(/\\x([0-9a-f]+)/g)].map(([, digits = '']) =>
    Buffer.from(digits, 'hex').toString(),
  )
  const base64 = [...text.matchAll(/[A-Za-z0-9+/]{16,}={0,2}/g)].map(([digits]) =>
    Buffer.from(digits, 'base64').toString(),
  )
  return [text, ...hex, ...base64]
}
