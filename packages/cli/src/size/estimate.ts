import { C } from './constants.js'

/** What is asked of the service. */
export interface Workload {
  /** New keys per second. */
  readonly rate: number
  /** Replays per second. */
  readonly replayRate: number
  readonly retentionSeconds: number
  readonly effectRetentionSeconds: number
  readonly inputBytes: number
  readonly bodyBytes: number
  readonly locals: number
  readonly calls: number
  readonly jobs: number
  readonly commits: 'each' | 'fewest'
  readonly roundTripMs: number
}

/** What that takes. */
export interface Estimate {
  readonly keys: number
  readonly effects: number
  readonly disk: {
    readonly keyTable: number
    readonly keyIndexes: number
    readonly effectTable: number
    readonly effectIndexes: number
    readonly jobs: number
    readonly total: number
  }
  /** Of the indexes in which new rows go anywhere, so that all of their pages are in use. */
  readonly randomIndexBytes: number
  readonly log: {
    readonly perRequest: number
    /** Whole pages, once for each page that is written after a checkpoint. */
    readonly pagesPerRequest: number
    readonly perSecond: number
    readonly perDay: number
  }
  readonly vacuum: {
    readonly deadPerSecond: number
    readonly everySeconds: number
    readonly seconds: number
    /** How much of the time one vacuum after the other takes. */
    readonly share: number
  }
  readonly reaper: { readonly perSecond: number; readonly share: number }
  readonly statements: number
  readonly roundTrips: number
  readonly transactions: number
  readonly connections: number
  readonly serverCores: number
  readonly nodeCores: number
}

/** The measured request has this much of both; their bytes are in the constants already. */
const MEASURED_BYTES = 100

export function estimate(load: Workload): Estimate {
  const { rate, replayRate } = load
  const keys = rate * load.retentionSeconds
  const effects = rate * load.calls * load.effectRetentionSeconds
  const transactions = transactionsOf(load)
  const statements = statementsOf(load, transactions)
  const disk = diskOf(load, keys, effects)
  const serverMs = (C.serverCpuOfRide / C.statementsOfRide) * statements
  const replayMs = (2 * 1_000) / C.replaysPerSecond - C.nodeCpuOfReplay
  const roundTrips = 1 + transactions
  const busyMs = serverMs + roundTrips * load.roundTripMs + transactions * C.flushMs
  const replayBusyMs = replayMs + C.roundTripsOfReplay * load.roundTripMs
  return {
    keys,
    effects,
    disk,
    randomIndexBytes: keys * (C.uniqueEntry + C.idEntry) + effects * C.effectEntry,
    log: logOf(load, keys, effects),
    vacuum: vacuumOf(rate, keys, transactions, disk),
    reaper: { perSecond: rate, share: rate / C.reapedPerSecond },
    statements,
    roundTrips,
    transactions,
    // Little's law: how many are busy at a time. Nobody holds one during a call.
    connections: (rate * busyMs + replayRate * replayBusyMs) / 1_000,
    serverCores: (rate * serverMs + replayRate * replayMs) / 1_000,
    nodeCores: (rate * C.nodeCpuOfRide + replayRate * C.nodeCpuOfReplay) / 1_000,
  }
}

/** Those that wait for the disk. Local phases come before the calls. */
function transactionsOf({ commits, locals, calls }: Workload): number {
  if (commits === 'each') return locals + calls + 1
  return Math.max(1, calls + (locals > 0 && calls > 0 ? 1 : 0))
}

function statementsOf({ calls, jobs }: Workload, transactions: number): number {
  return (
    C.statementsOfReserve +
    transactions * C.statementsPerTransaction +
    calls * C.statementsPerCall +
    jobs * C.statementsPerJob
  )
}

/** Of an input or a body. What is too long for a row lies beside the table, where pages are full. */
function storedBytes(bytes: number): number {
  const short = Math.min(bytes, C.longFrom)
  return bytes * C.diskPerLongByte + short * (C.diskPerShortByte - C.diskPerLongByte)
}

function diskOf(load: Workload, keys: number, effects: number): Estimate['disk'] {
  const payload = storedBytes(load.inputBytes) + storedBytes(load.bodyBytes) - 2 * storedBytes(MEASURED_BYTES)
  const parts = {
    keyTable: keys * (C.keyRow + payload),
    keyIndexes: keys * C.keyIndexes,
    effectTable: effects * C.effectRow,
    effectIndexes: effects * C.effectIndexes,
    jobs: load.rate * load.jobs * C.jobWaitSeconds * C.jobRow,
  }
  return { ...parts, total: Object.values(parts).reduce((sum, bytes) => sum + bytes, 0) }
}

function logOf(load: Workload, keys: number, effects: number): Estimate['log'] {
  const { rate, locals, calls, jobs, commits } = load
  const perPhase = commits === 'each' ? C.logPerLocalPhase : C.logPerSharedPhase
  const payload = load.inputBytes + load.bodyBytes - 2 * MEASURED_BYTES
  const perRequest =
    C.logOfReserveAndFinish +
    locals * perPhase +
    calls * C.logPerCall +
    jobs * C.logPerJob +
    payload * C.logPerByte
  const pages =
    firstTouches(rate, keys * C.uniqueEntry) +
    firstTouches(rate, keys * C.idEntry) +
    (calls === 0 ? 0 : firstTouches(rate, effects * C.effectEntry))
  const pagesPerRequest = (pages * C.pageBytes * C.indexFill) / (rate * C.checkpointSeconds)
  const perSecond = rate * (perRequest + pagesPerRequest)
  return { perRequest, pagesPerRequest, perSecond, perDay: perSecond * 86_400 }
}

/** How many pages of an index with random entries are written at least once between two checkpoints. */
function firstTouches(rate: number, indexBytes: number): number {
  const pages = indexBytes / C.pageBytes
  return pages * (1 - Math.exp((-rate * C.checkpointSeconds) / pages))
}

function vacuumOf(
  rate: number,
  keys: number,
  transactions: number,
  { keyTable, keyIndexes }: Estimate['disk'],
): Estimate['vacuum'] {
  // Each transaction leaves the version before it, and the reaper the last one.
  const deadPerSecond = rate * (transactions + 1)
  const everySeconds = (C.autovacuumThreshold + C.autovacuumScale * keys) / deadPerSecond
  // All pages of the indexes; of the table those with keys that were finished or deleted since.
  const changed = Math.min(1, (2 * rate * everySeconds) / keys)
  const pages = (keyIndexes + keyTable * changed) / C.pageBytes
  const seconds = (pages * C.vacuumCostPerPage) / C.vacuumCostPerSecond
  return { deadPerSecond, everySeconds, seconds, share: seconds / everySeconds }
}
