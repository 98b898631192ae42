import { bytesText, numberText, percentText } from '../render/amount.js'
import { durationText } from '../render/time.js'
import type { Estimate, Workload } from './estimate.js'

/** What one database server has. */
export interface Server {
  readonly cores: number
  readonly memoryBytes: number
  /** What its disk, and the way to its replicas, can take of the log. */
  readonly logBytesPerSecond: number
}

/** A resource of one server: what is needed, what there is, and up to which rate it lasts. */
export interface Bound {
  readonly resource: string
  readonly needed: string
  readonly available: string
  readonly share: number
  /** New requests per second at which it is used up, with everything else as it was given. */
  readonly lastsTo: number
}

/** A server that is busier than this has nothing left for peaks, vacuum, backups and the loss of another. */
const MOST_SHARE = 0.7

/** From here on, a vacuum that meets with a delay is not done before the next is due. */
const MOST_VACUUM_SHARE = 0.25

/** The server, resource by resource, the one that ends first at the top. */
export function boundsOf(load: Workload, estimate: Estimate, server: Server): readonly Bound[] {
  const { serverCores, log, randomIndexBytes: hot, vacuum, reaper } = estimate
  const bound = (resource: string, share: number, needed: string, available: string): Bound => ({
    resource,
    needed,
    available,
    share,
    lastsTo: load.rate / share,
  })
  return [
    bound(
      'CPU',
      serverCores / (server.cores * MOST_SHARE),
      `${numberText(serverCores)} cores`,
      `${server.cores}, of which ${percentText(MOST_SHARE)}`,
    ),
    bound(
      'Log',
      log.perSecond / (server.logBytesPerSecond * MOST_SHARE),
      `${bytesText(log.perSecond)}/s`,
      `${bytesText(server.logBytesPerSecond)}/s, of which ${percentText(MOST_SHARE)}`,
    ),
    bound('Memory for indexes', hot / server.memoryBytes, bytesText(hot), bytesText(server.memoryBytes)),
    bound(
      'Vacuum of keys',
      vacuum.share / MOST_VACUUM_SHARE,
      `${percentText(vacuum.share)} of the time`,
      percentText(MOST_VACUUM_SHARE),
    ),
    bound('Reaper', reaper.share, `${numberText(reaper.perSecond)} keys/s`, 'one at its default pace'),
  ].toSorted((one, other) => other.share - one.share)
}

/** What to do about it, a sentence each. */
export function advise(estimate: Estimate, bounds: readonly Bound[]): readonly string[] {
  const { disk, vacuum } = estimate
  const isShort = (name: string): boolean =>
    bounds.some(({ resource, share }) => resource === name && share > 1)
  const effects = disk.effectTable + disk.effectIndexes
  return [
    ...(effects > disk.total / 2
      ? [
          `Effects are ${percentText(effects / disk.total)} of the disk. Shorten effectRetentionMs, if your audit allows: --effect-retention shows what it saves.`,
        ]
      : []),
    ...(isShort('Memory for indexes')
      ? [
          'Indexes in which new rows go anywhere do not fit in memory: each new request reads pages from the disk. Keep effects or keys for a shorter time, take more memory, or have clients send keys that grow with time (UUID version 7). Partitions do not help.',
        ]
      : []),
    isShort('Vacuum of keys')
      ? `Partition the tables: with PostgreSQL's default limit on its cost, a vacuum of the keys takes ${durationText(vacuum.seconds * 1_000)}, and is due every ${durationText(vacuum.everySeconds * 1_000)}. Raise that limit first.`
      : `No partitions are needed for vacuum. They would be from ${numberText(lastsTo(bounds, 'Vacuum of keys'))} requests/s on, or where REINDEX of ${bytesText(disk.keyIndexes)} takes too long.`,
    ...(isShort('Reaper')
      ? ['One reaper at its default pace does not keep up. Give it a larger batchSize, or run several.']
      : []),
    isShort('CPU') || isShort('Log')
      ? 'One server does not do. Replays can go to replicas; new requests need scopes on several servers.'
      : `One server does. It ends at ${numberText(Math.min(lastsTo(bounds, 'CPU'), lastsTo(bounds, 'Log')))} requests/s; scopes on several servers are for later.`,
  ]
}

function lastsTo(bounds: readonly Bound[], name: string): number {
  return bounds.find(({ resource }) => resource === name)?.lastsTo ?? Number.POSITIVE_INFINITY
}
