/** A number that was measured or is a default of PostgreSQL, and where it comes from. */
interface Constant {
  readonly value: number
  readonly unit: string
  readonly from: string
}

/** A test runs requests on a PostgreSQL and compares: bytes and counts, which hardly differ from run to run. */
const COUNTED = 'test/bench/size-constants.test.ts'
/** Times come from the bench; the test looks for them in the text. */
const BENCH = 'bench/README.md'
const PERFORMANCE = 'docs/performance.md'
const POSTGRES = 'a default of PostgreSQL 18'
const ASSUMED = 'assumed; ask for another with an option'

/** What `pawl size` reckons with. The request that was measured has an input and a body of 100 bytes each. */
export const SIZE_CONSTANTS = {
  // Log (WAL), without the whole pages that PostgreSQL adds after a checkpoint.
  logOfReserveAndFinish: { value: 1_220, unit: 'B/request', from: COUNTED },
  logPerLocalPhase: { value: 460, unit: 'B', from: COUNTED },
  logPerSharedPhase: { value: 200, unit: 'B', from: COUNTED },
  logPerCall: { value: 990, unit: 'B', from: COUNTED },
  logPerJob: { value: 360, unit: 'B', from: COUNTED },
  /** Of inputs and bodies. What is too long for a row is written in pieces, with a head each. */
  logPerByte: { value: 1.1, unit: 'B/B', from: COUNTED },

  // Disk, with a vacuum whenever a fifth of the table has changed.
  keyRow: { value: 1_300, unit: 'B/key', from: COUNTED },
  keyIndexes: { value: 200, unit: 'B/key', from: COUNTED },
  effectRow: { value: 265, unit: 'B/effect', from: COUNTED },
  effectIndexes: { value: 140, unit: 'B/effect', from: COUNTED },
  jobRow: { value: 285, unit: 'B/job', from: COUNTED },
  /** The table leaves 30 % of its pages to the next version of a row. */
  diskPerShortByte: { value: 1.43, unit: 'B/B', from: COUNTED },
  diskPerLongByte: { value: 1.05, unit: 'B/B', from: COUNTED },
  longFrom: { value: 2_000, unit: 'B', from: POSTGRES },

  // Statements and round trips, on the wire.
  statementsOfReserve: { value: 3, unit: 'statements', from: COUNTED },
  statementsPerTransaction: { value: 4, unit: 'statements', from: COUNTED },
  statementsPerCall: { value: 1, unit: 'statements', from: COUNTED },
  statementsPerJob: { value: 1, unit: 'statements', from: COUNTED },
  statementsOfReplay: { value: 2, unit: 'statements', from: PERFORMANCE },
  roundTripsOfReplay: { value: 2, unit: 'round trips', from: PERFORMANCE },

  // CPU.
  serverCpuOfRide: { value: 1.3, unit: 'ms/request', from: PERFORMANCE },
  nodeCpuOfRide: { value: 0.9, unit: 'ms/request', from: PERFORMANCE },
  statementsOfRide: { value: 15, unit: 'statements', from: PERFORMANCE },
  nodeCpuOfReplay: { value: 0.16, unit: 'ms/replay', from: BENCH },
  replaysPerSecond: { value: 5_548, unit: 'replays/s on two cores', from: BENCH },
  reapedPerSecond: { value: 5_983, unit: 'keys/s', from: BENCH },

  // PostgreSQL.
  pageBytes: { value: 8_192, unit: 'B', from: POSTGRES },
  /** How full the pages of an index are whose entries come in no order: about ln 2. */
  indexFill: { value: 0.69, unit: 'of a page', from: 'the theory of B-trees' },
  uniqueEntry: { value: 95, unit: 'B/key on disk', from: COUNTED },
  /** The finish writes a second entry for each key; vacuum removes the first, and its room stays. */
  idEntry: { value: 55, unit: 'B/key on disk', from: COUNTED },
  effectEntry: { value: 120, unit: 'B/effect on disk', from: COUNTED },
  checkpointSeconds: { value: 300, unit: 's', from: POSTGRES },
  autovacuumScale: { value: 0.2, unit: 'of the rows', from: POSTGRES },
  autovacuumThreshold: { value: 50, unit: 'rows', from: POSTGRES },
  /** 200 units of cost, then a pause of 2 ms. */
  vacuumCostPerSecond: { value: 100_000, unit: 'units/s', from: POSTGRES },
  /** A page that is read (2) and written (20). */
  vacuumCostPerPage: { value: 22, unit: 'units', from: POSTGRES },

  // The server and the network.
  flushMs: { value: 1, unit: 'ms', from: ASSUMED },
  jobWaitSeconds: { value: 60, unit: 's', from: ASSUMED },
} as const satisfies Record<string, Constant>

type Name = keyof typeof SIZE_CONSTANTS

/** The numbers alone. */
export const C = Object.fromEntries(
  Object.entries(SIZE_CONSTANTS).map(([name, { value }]) => [name, value]),
) as Readonly<Record<Name, number>>
