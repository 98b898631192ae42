import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { ReapPace } from '../contenders/pawl.js'
import { readCounters } from '../measure/counters.js'
import { cpuSince, readServerCpu } from '../measure/server-cpu.js'
import { short } from '../report/numbers.js'
import { figuresSection, type Figures, type Section } from '../report/section.js'
import type { Filled } from './growth-sizes.js'
import type { Mode, Stage } from './scenario.js'
import { TABLE_PARTS } from './table-parts.js'
import { writeOut } from './write-out.js'

/** What the upkeep is reckoned for. */
const REQUESTS_PER_SECOND = 100
const SECONDS_PER_HOUR = 3_600

/** How long each pace is tried. At the faster one, the full table has enough expired keys for about half a minute. */
const REAP_MS: Readonly<Record<Mode, number>> = { quick: 150, full: 12_000 }

/** Ten times as many rows as by default, without a pause. */
const LARGE_BATCH = 5_000

/** Until sessions have reported how many rows they have made dead; one that is idle does so after ten seconds. */
const STATISTICS_DELAY_MS: Readonly<Record<Mode, number>> = { quick: 1_500, full: 11_000 }

/** As many vacuums at once as there are cores here, and one less than PostgreSQL has workers for by default. */
const VACUUMS_AT_ONCE = 2

interface Pace {
  readonly label: string
  readonly batch: Omit<ReapPace, 'forMs'>
}

const PACES: readonly Pace[] = [
  { label: 'default pace', batch: {} },
  { label: `batches of ${LARGE_BATCH}, no pause`, batch: { batchSize: LARGE_BATCH, pauseMs: 0 } },
]

/** What the reaper and vacuum need, on the largest tables: their oldest 25th has expired, as after an hour without a reaper. */
export async function upkeepSections(stage: Stage, filled: readonly Filled[]): Promise<Section[]> {
  const { arena, mode, say } = stage
  const most = Math.max(...filled.map(({ size }) => size.keys))
  const largest = filled.filter(({ size }) => size.keys === most)
  const reaped: Figures['rows'][number][] = []
  const vacuumed: Figures['rows'][number][] = []
  for (const each of largest) {
    say(`growth: reaper and vacuum, ${each.label}`)
    await writeOut(arena.database.observer)
    await arena.leaveTo(each.entrant)
    for (const pace of PACES) reaped.push(await reap(stage, each, pace, REAP_MS[mode]))
    vacuumed.push(...(await vacuum(stage, each)))
  }
  const atRate = `at ${REQUESTS_PER_SECOND} requests/s`
  return [
    figuresSection(
      'growth reaper',
      `The reaper alone, and its share of an hour ${atRate}`,
      { columns: ['keys', 'keys/s', 'WAL B/key', 'PG ms/key', `s/hour ${atRate}`], rows: reaped },
      [
        `s/hour: ${short(REQUESTS_PER_SECOND * SECONDS_PER_HOUR)} keys expire in an hour; pauses are included, during which it does nothing.`,
      ],
    ),
    figuresSection(
      'growth vacuum',
      'VACUUM of the keys after that, without a limit on its cost',
      { columns: ['dead rows', 'vacuums', 's in all', 'longest s', 'PG s', 'WAL MB'], rows: vacuumed },
      [`Partitions are vacuumed ${VACUUMS_AT_ONCE} at a time.`],
    ),
  ]
}

async function reap(
  { arena: { database } }: Stage,
  { label, schema, entrant }: Filled,
  pace: Pace,
  forMs: number,
): Promise<Figures['rows'][number]> {
  const { observer } = database
  // Others expire meanwhile. The reaper begins with the oldest, so it deletes those that had expired by now.
  const by = new Date()
  const before = { left: await countExpired(observer, schema, by), ...(await readCounters(observer)) }
  const cpuBefore = await readServerCpu(observer)
  const start = performance.now()
  await entrant.control('reapFor', { ...pace.batch, forMs })
  const seconds = (performance.now() - start) / 1_000
  const cpuMs = cpuSince(cpuBefore, await readServerCpu(observer))
  const { walBytes } = await readCounters(observer)
  const left = await countExpired(observer, schema, by)
  const keys = before.left - left
  // Once nothing is left, it waits: how fast it was is then not known.
  const isKnown = left > 0 && keys > 0
  return {
    label: `${label}, ${pace.label}`,
    values: [
      keys,
      isKnown ? keys / seconds : null,
      (walBytes - before.walBytes) / keys,
      cpuMs === null ? null : cpuMs / keys,
      isKnown ? (REQUESTS_PER_SECOND * SECONDS_PER_HOUR * seconds) / keys : null,
    ],
  }
}

async function countExpired(observer: pg.Client, schema: string, by: Date): Promise<number> {
  const { rows } = await observer.query<{ count: string }>(
    `SELECT count(*) FROM "${schema}".idempotency_keys WHERE status = 'finished' AND expires_at <= $1`,
    [by],
  )
  return Number(rows[0]?.count)
}

interface Partition {
  readonly name: string
  readonly dead: string
}

async function vacuum(
  { arena: { database }, mode }: Stage,
  { label, schema }: Filled,
): Promise<Figures['rows']> {
  const { observer } = database
  await delay(STATISTICS_DELAY_MS[mode])
  const { rows: partitions } = await observer.query<Partition>(
    `SELECT p.relid::regclass::text AS name, coalesce(s.n_dead_tup, 0) AS dead
       FROM (${TABLE_PARTS}) AS p LEFT JOIN pg_stat_all_tables AS s ON s.relid = p.relid
      ORDER BY 1`,
    [schema, 'idempotency_keys'],
  )
  await writeOut(observer)
  const pool = new pg.Pool({ connectionString: database.url, max: VACUUMS_AT_ONCE, idleTimeoutMillis: 0 })
  try {
    const { walBytes } = await readCounters(observer)
    const cpuBefore = await readServerCpu(observer)
    const start = performance.now()
    // One process each, as autovacuum does it; a command may use several for the indexes.
    const seconds = await Promise.all(
      partitions.map(async ({ name }) => {
        const client = await pool.connect()
        const begun = performance.now()
        await client.query(`VACUUM (PARALLEL 0) ${name}`)
        client.release()
        return (performance.now() - begun) / 1_000
      }),
    )
    const allSeconds = (performance.now() - start) / 1_000
    const cpuMs = cpuSince(cpuBefore, await readServerCpu(observer))
    const written = (await readCounters(observer)).walBytes - walBytes
    const dead = partitions.reduce((sum, partition) => sum + Number(partition.dead), 0)
    return [
      {
        label,
        values: [
          dead,
          partitions.length,
          allSeconds,
          Math.max(...seconds),
          cpuMs === null ? null : cpuMs / 1_000,
          written / 1_000_000,
        ],
      },
    ]
  } finally {
    await pool.end()
  }
}
