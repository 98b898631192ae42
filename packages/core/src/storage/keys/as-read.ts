import type { KeyRow } from './key-row.js'

/**
 * Nothing in the row has changed since it was read. The id, because a key that was deleted and reserved again has another
 * row, whose fence and revision start again: another request. The holder, because a failover that lost commits takes fence
 * and revision back. `of`: the table's alias, and a dot. `first`: the number of the first of four parameters.
 */
export const asRead = (of: string, first: number): string =>
  `${of}id = $${first}::uuid AND ${of}holder = $${first + 1}::uuid AND ${of}fence = $${first + 2}::bigint
     AND ${of}revision = $${first + 3}::bigint`

/** The values of `asRead`. */
export const readValues = ({ id, holder, fence, revision }: KeyRow): unknown[] => [
  id,
  holder,
  fence,
  revision,
]
