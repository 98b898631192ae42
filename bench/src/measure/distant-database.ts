import pg from 'pg'
import { PROBE_QUERIES } from '../limits.js'
import { startProxy } from './proxy-process.js'
import { percentile } from './statistics.js'

/** A database that seems further away than it is. */
export interface DistantDatabase {
  readonly url: string
  /** What the proxy really adds to a round trip (median). */
  readonly addedMs: number
  close(): Promise<void>
}

export async function openDistantDatabase(
  databaseUrl: string,
  roundTripMs: number,
): Promise<DistantDatabase> {
  const proxy = await startProxy(databaseUrl)
  // Passing through the proxy already takes a while: that is part of the distance, not added to it.
  const passingMs = await measureAdded(databaseUrl, proxy.url)
  await proxy.delayBy(Math.max(0, roundTripMs - passingMs))
  const addedMs = await measureAdded(databaseUrl, proxy.url)
  return { url: proxy.url, addedMs, close: () => proxy.close() }
}

/** Every second query goes around the proxy. */
async function measureAdded(directUrl: string, distantUrl: string): Promise<number> {
  const direct = new pg.Client({ connectionString: directUrl })
  const distant = new pg.Client({ connectionString: distantUrl })
  await Promise.all([direct.connect(), distant.connect()])
  const directMs: number[] = []
  const distantMs: number[] = []
  for (let round = 0; round < PROBE_QUERIES; round++) {
    directMs.push(await timed(direct))
    distantMs.push(await timed(distant))
  }
  await Promise.all([direct.end(), distant.end()])
  return percentile(distantMs, 0.5) - percentile(directMs, 0.5)
}

async function timed(client: pg.Client): Promise<number> {
  const start = performance.now()
  await client.query('SELECT 1')
  return performance.now() - start
}
