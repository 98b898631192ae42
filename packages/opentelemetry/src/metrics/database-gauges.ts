import type { BoundedCount } from '@pawl/core'
import type { Instruments } from './instruments.js'
import { metricList, type NamesOf } from './metric-table.js'
import type { Observation } from './shared-gauges.js'

/** What the gauges of the database are read from: an operator, or whatever has that function. */
export interface ReadingSource {
  /** Null where they are not known yet. */
  reading(options: { readonly everyMs: number }): Promise<DatabaseNumbers | null>
}

/** The numbers that become gauges. */
export interface DatabaseNumbers {
  /** How old they are: whoever was to read them anew may have died, or may fail each time. */
  readonly ageMs: number
  readonly unfinished: readonly {
    readonly pipeline: string
    readonly version: number
    readonly recoveryPoint: string
    readonly held: number
    readonly backingOff: number
    readonly unattended: number
    readonly stuck: number
  }[]
  readonly stuckBy: readonly { readonly reason: string; readonly count: number }[]
  readonly oldestUnattendedMs: number | null
  readonly finished: BoundedCount
  readonly expired: BoundedCount
  readonly oldestExpiredMs: number | null
  readonly jobs: {
    readonly waiting: BoundedCount
    readonly dead: BoundedCount
    readonly oldestDueMs: number | null
  }
  readonly tables: readonly {
    readonly table: string
    readonly bytes: number
    readonly rows: number
    readonly deadRows: number
  }[]
}

/** A collection waits no longer than this for the database, so that it has everything else in time also when that is away. */
const MAX_WAIT_MS = 1_000

/** Numbers that are older than this many intervals are not reported any more: a gauge that stands still looks like health. */
const STALE_AFTER_INTERVALS = 4

/** The gauges that it has numbers for. */
export const DATABASE_GAUGES: readonly NamesOf<'gauge'>[] = metricList
  .filter(({ feed, instrument }) => instrument === 'gauge' && (feed === 'database' || feed === 'reader'))
  .map(({ name }) => name as NamesOf<'gauge'>)

/** The numbers of one database, whenever metrics are collected. */
export class DatabaseGauges {
  readonly #source: ReadingSource
  readonly #instruments: Instruments
  readonly #everyMs: number
  readonly #startedAt = performance.now()
  /** `at`: when they were read, by whichever process, on the clock of this one. */
  #last: { readonly numbers: DatabaseNumbers; readonly at: number } | null = null
  #reading: Promise<void> | null = null

  constructor(source: ReadingSource, instruments: Instruments, everyMs: number) {
    this.#source = source
    this.#instruments = instruments
    this.#everyMs = everyMs
    instruments.add('pawl.reading.failures', 0, {})
  }

  /** Reads them, if that is due. */
  async observations(): Promise<Observation[]> {
    await this.#refresh()
    const now = performance.now()
    const ageMs = now - (this.#last?.at ?? this.#startedAt)
    const age = of('pawl.reading.age', ageMs / 1_000)
    if (this.#last === null || ageMs > STALE_AFTER_INTERVALS * this.#everyMs) return [age]
    return [age, ...observationsOf(this.#last.numbers)]
  }

  /** Never rejects. Several collections at once wait for the same reading, and one that takes too long goes on without them. */
  async #refresh(): Promise<void> {
    if (this.#last !== null && performance.now() - this.#last.at < this.#everyMs) return
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null
    })
    let timer: NodeJS.Timeout | undefined
    const tooLong = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, MAX_WAIT_MS)
    })
    await Promise.race([this.#reading, tooLong])
    clearTimeout(timer)
  }

  async #read(): Promise<void> {
    try {
      const numbers = await this.#source.reading({ everyMs: this.#everyMs })
      // Another process is just reading for the first time.
      if (numbers !== null) this.#last = { numbers, at: performance.now() - numbers.ageMs }
    } catch {
      this.#instruments.add('pawl.reading.failures', 1, {})
    }
  }
}

function observationsOf(numbers: DatabaseNumbers): Observation[] {
  const { unfinished, stuckBy, jobs, tables } = numbers
  return [
    ...unfinished.flatMap(({ pipeline, version, recoveryPoint, held, backingOff, unattended, stuck }) =>
      Object.entries({ held, backing_off: backingOff, unattended, stuck }).map(([condition, value]) =>
        of('pawl.keys', value, {
          'pawl.pipeline': pipeline,
          'pawl.version': version,
          'pawl.recovery_point': recoveryPoint,
          'pawl.key.condition': condition,
        }),
      ),
    ),
    ...stuckBy.map(({ reason, count }) => of('pawl.keys.stuck', count, { 'pawl.stuck.reason': reason })),
    of('pawl.keys.finished', numbers.finished.count),
    of('pawl.keys.expired', numbers.expired.count),
    of('pawl.keys.oldest_unattended', seconds(numbers.oldestUnattendedMs)),
    of('pawl.keys.oldest_expired', seconds(numbers.oldestExpiredMs)),
    of('pawl.jobs', jobs.waiting.count, { 'pawl.job.condition': 'waiting' }),
    of('pawl.jobs', jobs.dead.count, { 'pawl.job.condition': 'dead' }),
    of('pawl.jobs.oldest_due', seconds(jobs.oldestDueMs)),
    ...tables.flatMap(({ table, bytes, rows, deadRows }) => [
      of('pawl.table.size', bytes, { 'pawl.table': table }),
      of('pawl.table.rows', rows, { 'pawl.table': table, 'pawl.row.state': 'live' }),
      of('pawl.table.rows', deadRows, { 'pawl.table': table, 'pawl.row.state': 'dead' }),
    ]),
  ]
}

const of = (
  name: NamesOf<'gauge'>,
  value: number,
  attributes: Observation['attributes'] = {},
): Observation => ({ name, value, attributes })

const seconds = (ms: number | null): number => (ms ?? 0) / 1_000
