import { leaseIsOver } from './lease-is-over.js'
import { statusIs } from '../statement.js'

/**
 * The row that was read, if nothing in it has changed since and nobody holds it. The fence alone does not show that: a
 * holder whose lease ran out may have advanced, declared a call and given the key back under the fence that was read. A
 * locked row belongs to a holder that is about to commit, or froze while doing so. It is skipped, so that duplicates
 * neither wait nor drain the pool.
 */
export const unheld = (keys: string, writtenBy: string, leaseBoundMs: string): string => `
  SELECT id FROM ${keys}
   WHERE id = $1::uuid AND fence = $2::bigint AND xmin = ${writtenBy}::xid AND ${statusIs('running', '')}
     AND ${leaseIsOver('', leaseBoundMs)}
     FOR NO KEY UPDATE SKIP LOCKED`
