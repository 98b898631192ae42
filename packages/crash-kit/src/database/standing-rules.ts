import pg from 'pg'
import type { KitSchemas } from './kit-schemas.js'
import { type Queryable, type TextRow, textRows } from './text-rows.js'

/** Something about a table that would get in the way of taking changes back, and how to suspend and resume it. */
export interface StandingRule {
  /** Quoted, with its schema. */
  readonly table: string
  readonly suspend: string
  readonly resume: string
}

/** Reads the enabled triggers, because neither the audit nor the application should see it. Those of foreign keys stay. */
export async function readTriggers(on: Queryable, { pawl, business }: KitSchemas): Promise<StandingRule[]> {
  const rows = await textRows(
    on,
    `SELECT n.nspname AS schema, c.relname AS table, t.tgname AS name
       FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE n.nspname IN ($1, $2) AND NOT t.tgisinternal AND t.tgparentid = 0 AND t.tgenabled = 'O'`,
    [pawl, business],
  )
  return rows.map((row) => rule(row, (name) => [`DISABLE TRIGGER ${name}`, `ENABLE TRIGGER ${name}`]))
}

/**
 * Reads the foreign keys that are checked with each statement. What a cascade does is recorded after its cause, and so taken back
 * before it: only at the end does every row have its parent again.
 */
export async function readForeignKeyChecks(
  on: Queryable,
  { pawl, business }: KitSchemas,
): Promise<StandingRule[]> {
  const rows = await textRows(
    on,
    `SELECT n.nspname AS schema, c.relname AS table, k.conname AS name
       FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE n.nspname IN ($1, $2) AND k.contype = 'f' AND k.conparentid = 0 AND NOT k.condeferrable`,
    [pawl, business],
  )
  return rows.map((row) =>
    rule(row, (name) => [`ALTER CONSTRAINT ${name} DEFERRABLE`, `ALTER CONSTRAINT ${name} NOT DEFERRABLE`]),
  )
}

function rule(row: TextRow, actions: (name: string) => readonly [string, string]): StandingRule {
  const table = quotedTable(row['schema'] ?? '', row['table'] ?? '')
  const [suspend, resume] = actions(pg.escapeIdentifier(row['name'] ?? ''))
  return { table, suspend: `ALTER TABLE ${table} ${suspend}`, resume: `ALTER TABLE ${table} ${resume}` }
}

export function quotedTable(schema: string, table: string): string {
  return `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(table)}`
}
