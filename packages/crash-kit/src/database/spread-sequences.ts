import type { Pool } from 'pg'
import type { KitSchemas } from './kit-schemas.js'

/** How far apart the sequences of two tables begin: more than the rows of a case, within a `smallserial`. */
const APART = 500

/**
 * Lets every sequence begin somewhere else. Two that begin alike would give two rows the same id in every clean run, and
 * the kit would take them for one.
 */
export async function spreadSequences(admin: Pool, { business }: KitSchemas): Promise<void> {
  const { rows } = await admin.query<{ name: string }>(
    `SELECT format('%I.%I', schemaname, sequencename) AS name FROM pg_sequences
      WHERE schemaname = $1 AND increment_by > 0 AND max_value > 30000 ORDER BY 1`,
    [business],
  )
  for (const [at, { name }] of rows.entries()) {
    // Beyond the sixtieth they meet again, which is no harm unless all of them are in one request.
    const by = APART * ((at % 60) + 1)
    await admin.query(
      `SELECT setval($1::regclass, least(coalesce(last_value, 0) + $2, max_value / 2)) FROM pg_sequences
        WHERE format('%I.%I', schemaname, sequencename) = $1`,
      [name, by],
    )
  }
}
