import type { Outcome } from '../pipeline/outcome.js'
import type { Registry } from '../pipeline/registry.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { CachedKeys } from './cached-keys.js'
import type { KnownEpoch } from './cache-epochs.js'
import { decideReservation } from './decide-reservation.js'
import type { CheckedRequest } from './execute-request.js'
import type { RequestContext } from './request-context.js'
import {
  askingFor,
  type Decided,
  decided,
  type Enqueued,
  type Granted,
  NOBODY,
  type NotGranted,
} from './reserve-key.js'

/**
 * Answers an equal request from the cache: with a replay, or, for `execute`, with `in_flight`. Returns null for everything else:
 * whatever else there is to say about a key, PostgreSQL says it.
 */
export async function answerFromCache(
  cache: CachedKeys,
  { settings }: RequestContext,
  request: CheckedRequest,
  among: Registry,
  method: 'execute' | 'enqueue',
): Promise<Decided | null> {
  const row = await cache.find(request.scope, request.key)
  if (row === null) return null
  const decision = decideReservation(row, askingFor(request, NOBODY), among, settings)
  const isAnswer = decision.type === 'replay' || (decision.type === 'in_flight' && method === 'execute')
  return isAnswer ? decided(row, decision, 'cache') : null
}

/**
 * Caches what PostgreSQL has just said about a key. What a replica said is older than the epoch it would be cached under. `under`:
 * the epoch before PostgreSQL was asked.
 */
export function cacheAnswer(
  cache: CachedKeys,
  under: KnownEpoch | null,
  reservation: Granted | Enqueued | NotGranted,
): void {
  if (reservation.type !== 'decided' || reservation.from !== 'primary') return
  const { row, decision } = reservation
  if (decision.type === 'replay' || decision.type === 'in_flight') cache.keep(row, under)
}

/** Caches what a run has committed, or drops what is no longer true. `under`: the epoch before it began. */
export function cacheEnd(cache: CachedKeys, under: KnownEpoch | null, row: KeyRow, outcome: Outcome): void {
  switch (outcome.type) {
    case 'completed': {
      const { response, expiresAt } = outcome
      const expiresMs = expiresAt.getTime()
      cache.keep(
        { ...row, status: 'finished', recoveryPoint: 'finished', leaseUntilMs: null, response, expiresMs },
        under,
      )
      return
    }
    case 'retry_later':
    case 'stuck':
      // A duplicate may have been told that somebody holds it.
      cache.drop(row.scope, row.key)
      return
    case 'replayed':
    case 'in_flight':
    case 'mismatch':
    case 'expired':
    case 'limited':
    case 'refused':
    case 'unavailable':
      return
  }
}
