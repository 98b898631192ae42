import { asRead, readValues } from './as-read.js'
import type { KeyRow } from './key-row.js'
import { leaseIsOver } from './lease-is-over.js'
import { statusIs } from '../statement.js'
import type { Tables } from '../tables.js'

/**
 * The row that was read, if nothing in it has changed since and nobody holds it. The fence alone does not show that nothing
 * has changed. A holder whose lease ran out may have advanced, declared a call and given the key back under the fence that
 * was read. A locked row belongs to a holder that is about to commit, or froze while doing so. It is skipped, so that
 * duplicates neither wait nor drain the pool.
 */
export const unheld = ({ keys, server }: Tables): string => `
  SELECT scope, key, ${server} AS server FROM ${keys}
   WHERE scope = $1 AND key = $2 AND ${asRead('', 3)} AND ${statusIs('running', '')}
     AND ${leaseIsOver('', '$7')}
     FOR NO KEY UPDATE SKIP LOCKED`

/** The values of `unheld`. */
export const unheldValues = (read: KeyRow, leaseBoundMs: number): unknown[] => [
  read.scope,
  read.key,
  ...readValues(read),
  leaseBoundMs,
]
