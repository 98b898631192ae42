import type pg from 'pg'

/** A row as PostgreSQL wrote it, whatever parsers the application has set in pg. */
export type TextRow = Readonly<Record<string, string | null>>

/** A pool, or a client where a transaction is open. */
export type Queryable = Pick<pg.ClientBase, 'query'> | Pick<pg.Pool, 'query'>

const AS_TEXT = { getTypeParser: () => (value: string) => value } as unknown as pg.CustomTypesConfig

export async function textRows(on: Queryable, text: string, values: unknown[] = []): Promise<TextRow[]> {
  const { rows } = await (on as pg.Pool).query<Record<string, string | null>>({
    text,
    values,
    types: AS_TEXT,
  })
  return rows
}

/** Returns an SQL expression for milliseconds since the epoch, without a JavaScript Date in between. */
export const epochMs = (expression: string): string => `floor(extract(epoch FROM ${expression}) * 1000)`
