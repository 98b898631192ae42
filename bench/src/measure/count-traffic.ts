import type { ContenderName } from '../contenders/registry.js'
import { COUNTING_LIMIT_MS, LEAST_COUNTED, MOST_COUNTED } from '../limits.js'
import type { Arena } from '../run/arena.js'
import type { Entrant } from '../run/entrant.js'
import { type ProxyProcess, startProxy } from './proxy-process.js'

/** What one request sends to the database. */
export interface RequestTraffic {
  readonly statements: number
  readonly roundTrips: number
}

/** What is counted. */
export interface CountedRequests {
  /** Not counted. */
  readonly before?: (entrant: Entrant) => Promise<void>
  readonly send: (entrant: Entrant, requests: number) => Promise<void>
}

/** Far enough away that everything a client sends together arrives before the first answer, and counts as one round trip. */
const COUNTING_ROUND_TRIP_MS = 1

/**
 * Counts statements and round trips per request, one request at a time and untimed, through a proxy. No other instance
 * of the contender may be open: some are one per process.
 */
export async function countTraffic(
  arena: Arena,
  names: readonly ContenderName[],
  { before = async () => {}, send }: CountedRequests,
): Promise<ReadonlyMap<ContenderName, RequestTraffic | null>> {
  const counted = new Map<ContenderName, RequestTraffic | null>()
  const proxy = await startProxy(arena.database.url)
  await proxy.delayBy(COUNTING_ROUND_TRIP_MS)
  for (const name of names) {
    const entrant = await arena.enter(name, { databaseUrl: proxy.url })
    await before(entrant)
    counted.set(name, await countOne(proxy, entrant, send))
    await entrant.close()
  }
  await proxy.close()
  return counted
}

async function countOne(
  proxy: ProxyProcess,
  entrant: Entrant,
  send: CountedRequests['send'],
): Promise<RequestTraffic | null> {
  const start = performance.now()
  // Opens the connection and fills caches.
  await send(entrant, 1)
  const requests = requestsWithin(COUNTING_LIMIT_MS, performance.now() - start)
  const earlier = await proxy.traffic()
  await send(entrant, requests)
  const later = await proxy.traffic()
  if (later.isEncrypted) return null
  return {
    statements: (later.statements - earlier.statements) / requests,
    roundTrips: (later.roundTrips - earlier.roundTrips) / requests,
  }
}

function requestsWithin(limitMs: number, requestMs: number): number {
  return Math.min(MOST_COUNTED, Math.max(LEAST_COUNTED, Math.floor(limitMs / requestMs)))
}
