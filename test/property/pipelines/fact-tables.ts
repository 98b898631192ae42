import type { ColumnType, Generated } from 'kysely'
import type pg from 'pg'

/** What the phases of a plan write to. */
export interface FactDatabase {
  facts: {
    id: Generated<string>
    /** The request that wrote it: scope and key id. */
    run: string
    phase: string
    /** Its place among those of its phase. */
    n: number
    /** It is written as JSON text. */
    value: ColumnType<unknown, string, string>
  }
  totals: { scope: string; name: string; amount: number }
}

/** Creates the tables in a schema that exists. They use `json` because `jsonb` refuses NULs and lone surrogates, which plans have. */
export async function createFactTables(pool: pg.Pool, schema: string): Promise<void> {
  await pool.query(`
    CREATE TABLE ${schema}.facts (
      id uuid PRIMARY KEY DEFAULT gen_random_uuid(), run text NOT NULL, phase text NOT NULL, n integer NOT NULL,
      value json NOT NULL);
    CREATE INDEX facts_by_run ON ${schema}.facts (run);
    CREATE TABLE ${schema}.totals (
      scope text NOT NULL, name text NOT NULL, amount integer NOT NULL, PRIMARY KEY (scope, name))`)
}

export function runOf({ scope, keyId }: { readonly scope: string; readonly keyId: string }): string {
  return `${scope}/${keyId}`
}
