import type { Row } from '../history.js'
import type { KitSchemas } from './kit-schemas.js'
import { readRow } from './read-history.js'
import { type Queryable, textRows } from './text-rows.js'

/** Reads the key's row, in the form that the history has. */
export async function readKeyRow(
  on: Queryable,
  { pawl }: KitSchemas,
  scope: string,
  key: string,
): Promise<Row | null> {
  const [row] = await textRows(
    on,
    `SELECT row_to_json(k) AS json FROM ${pawl}.idempotency_keys AS k WHERE k.scope = $1 AND k.key = $2`,
    [scope, key],
  )
  return readRow(row?.['json'])
}
