import { checkKnownOptions, checkTimerMs, type OptionOwner } from '../check-option.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { DEFAULT_READING_MS, FLOW_GROUPS, MIN_READING_MS, RETRIED_FOR_LONG_MS } from '../limits.js'
import { countRows } from '../storage/keys/count-rows.js'
import { findOverdue } from '../storage/keys/find-overdue.js'
import { findRetried } from '../storage/keys/find-retried.js'
import { type FlowRow, groupFlow } from '../storage/keys/group-flow.js'
import { groupStuck } from '../storage/keys/group-stuck.js'
import { findReading, type StoredReading } from '../storage/readings/find-reading.js'
import { storeReading } from '../storage/readings/store-reading.js'
import { takeTurn } from '../storage/readings/take-turn.js'
import { isMissingRight } from '../storage/schema/missing-right.js'
import { readTableSizes } from '../storage/schema/read-table-sizes.js'
import type { Store } from '../storage/statement.js'
import { isPartial } from './read-flow.js'
import type { Reading, ReadingOptions, TableSize, UnfinishedAt } from './reading.js'
import { bounded } from './views.js'

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'reading' }

export function checkReadingOptions(options: ReadingOptions): number {
  checkKnownOptions(OWNER, options, ['everyMs'])
  checkTimerMs(OWNER, 'everyMs', options.everyMs, MIN_READING_MS)
  return options.everyMs ?? DEFAULT_READING_MS
}

/** read_only_sql_transaction: the role, or the server, only reads. */
const READ_ONLY = '25006'

/** Where readings are taken. */
interface ReadingContext {
  with<T>(work: (store: Store) => Promise<T>): Promise<T>
}

/**
 * Numbers for gauges, read by one process per interval for all. Whoever may not write reads for itself, as often as that: so each
 * of these keeps its own.
 */
export class Readings {
  readonly #context: ReadingContext
  /** What was read without the right to keep it in the database, and when, on this process's monotonic clock. */
  #own: { readonly at: number; readonly reading: Promise<Reading> } | null = null

  constructor(context: ReadingContext) {
    this.#context = context
  }

  /** Returns null where another process is just reading for the first time. */
  async take(everyMs: number): Promise<Reading | null> {
    if (this.#own !== null) return this.#takeOwn(everyMs)
    const turn = await this.#context.with((store) => takeTurnOrFind(store, everyMs))
    if (turn.type === 'may_not') return this.#takeOwn(everyMs)
    if (turn.type === 'found') return turn.stored === null ? null : parse(turn.stored)
    return this.#context.with(async (store) => {
      const reading = await readGauges(store)
      await storeReading(store, JSON.stringify(reading))
      return reading
    })
  }

  async #takeOwn(everyMs: number): Promise<Reading> {
    const now = performance.now()
    if (this.#own === null || now - this.#own.at >= everyMs) {
      this.#own = { at: now, reading: this.#context.with(readGauges) }
      // Whoever awaits it hears of it. The next one tries again.
      this.#own.reading.catch(() => (this.#own = null))
    }
    const { at, reading } = this.#own
    return { ...(await reading), ageMs: now - at }
  }
}

type Turn =
  | { readonly type: 'ours' }
  | { readonly type: 'found'; readonly stored: StoredReading | null }
  | { readonly type: 'may_not' }

async function takeTurnOrFind(store: Store, everyMs: number): Promise<Turn> {
  try {
    const stored = await findReading(store)
    const isFresh = stored !== null && Math.abs(stored.takenAgoMs) < everyMs
    if (!isFresh && (await takeTurn(store, everyMs))) return { type: 'ours' }
    return { type: 'found', stored }
  } catch (error) {
    if (isMissingRight(error) || sqlStateOf(error) === READ_ONLY) return { type: 'may_not' }
    throw error
  }
}

async function readGauges(store: Store): Promise<Reading> {
  const rows = await countRows(store)
  const groups = await groupFlow(store, FLOW_GROUPS)
  const stuckBy = await groupStuck(store)
  const overdue = await findOverdue(store, 0)
  const retried = await findRetried(store, RETRIED_FOR_LONG_MS)
  return {
    at: new Date(rows.nowMs),
    ageMs: 0,
    unfinished: groups.map(withoutAge),
    isPartial: isPartial(groups),
    stuckBy,
    oldestUnattendedMs: overdue?.sinceMs ?? null,
    retriedForLong: retried?.count ?? 0,
    finished: bounded(rows.finished),
    expired: bounded(rows.expired),
    oldestExpiredMs: rows.oldestExpiredMs,
    jobs: { waiting: bounded(rows.waiting), dead: bounded(rows.dead), oldestDueMs: rows.oldestDueMs },
    tables: await readSizes(store),
  }
}

function withoutAge(row: FlowRow): UnfinishedAt {
  const { pipeline, version, recoveryPoint, held, backingOff, unattended, stuck } = row
  return { pipeline, version, recoveryPoint, held, backingOff, unattended, stuck }
}

/** How large the framework's tables are. */
export async function readSizes(store: Store): Promise<TableSize[]> {
  const sizes = await readTableSizes(store)
  return sizes.map(({ table, liveRows, deadRows, bytes, vacuumedMs }) => ({
    table,
    rows: liveRows,
    deadRows,
    bytes,
    lastVacuumAt: vacuumedMs === null ? null : new Date(vacuumedMs),
  }))
}

/**
 * Another process, of this version or another one, has written it. Whoever has the turn may have died or failed, as may all before: then
 * it is much older than the turn.
 */
function parse({ readingJson, nowMs }: StoredReading): Reading | null {
  if (readingJson === null) return null
  const stored = JSON.parse(readingJson) as Reading
  const at = new Date(stored.at)
  return {
    ...stored,
    at,
    ageMs: Math.max(0, nowMs - at.getTime()),
    tables: stored.tables.map((table) => ({
      ...table,
      lastVacuumAt: table.lastVacuumAt === null ? null : new Date(table.lastVacuumAt),
    })),
  }
}
