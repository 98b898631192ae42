import type { TestDatabase } from '../support/test-database.js'

const TABLES = ['idempotency_keys', 'effects', 'staged_jobs', 'interventions']

/** Every column of Pawl's tables that holds a text: `table.column`, however the text is stored. */
export async function columnsWith(database: TestDatabase, text: string): Promise<string[]> {
  const found = new Set<string>()
  for (const table of TABLES) {
    const rows = await database.rows<{ row: Record<string, unknown> }>(
      `SELECT to_jsonb(t) AS row FROM pawl.${table} AS t`,
    )
    for (const { row } of rows)
      for (const [column, value] of Object.entries(row))
        if (readings(value).some((reading) => reading.includes(text))) found.add(`${table}.${column}`)
  }
  return [...found].toSorted()
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
