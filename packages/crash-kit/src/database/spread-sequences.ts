import type { Pool } from 'pg'
import type { KitSchemas } from './kit-schemas.js'

/** How far apart the sequences of two tables begin: more than the rows of a case. */
const APART = 500

/** After this many, they begin alike again, because otherwise a `smallserial` would run out too soon. */
const PLACES = 30

/**
 * Makes every sequence begin at a different number. Two that begin alike would give two rows the same id in every clean run, and
 * the kit would take the two ids for one.
 */
export async function spreadSequences(admin: Pool, { business }: KitSchemas): Promise<void> {
  await admin.query(
    `SELECT setval(format('%I.%I', schemaname, sequencename)::regclass,
                   coalesce(last_value, 0) + $2::integer * (1 + nth % $3::integer))
       FROM (SELECT *, row_number() OVER (ORDER BY sequencename) AS nth FROM pg_sequences
              WHERE schemaname = $1 AND increment_by > 0) AS s
      WHERE coalesce(last_value, 0) + $2::integer * (1 + $3::integer) < max_value / 2`,
    [business, APART, PLACES],
  )
}
