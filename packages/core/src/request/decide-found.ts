import type { Registry } from '../pipeline/registry.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { decideReservation } from './decide-reservation.js'
import type { CheckedRequest } from './execute-request.js'
import { askingFor, type Decided, decided, NOBODY } from './reserve-key.js'
import type { RequestContext } from './request-context.js'

/**
 * Decides a request by the row of a finished or stuck key that was read a moment ago, for several requests. Each of them
 * passes the checks that it would meet in the database: another scope, key, request or pipeline gets nothing of the row.
 * Returns null where the database has to be asked.
 */
export function decideFound(
  { settings }: RequestContext,
  row: KeyRow,
  request: CheckedRequest,
  among: Registry,
): Decided | null {
  if (row.scope !== request.scope || row.key !== request.key || row.status === 'running') return null
  const decision = decideReservation(row, askingFor(request, NOBODY), among, settings)
  switch (decision.type) {
    case 'replay':
    case 'stuck':
    case 'mismatch':
    case 'refuse':
      return decided(row, decision)
    case 'in_flight':
    case 'mark_stuck':
    case 'ours':
    case 'take_over':
      return null
  }
}
