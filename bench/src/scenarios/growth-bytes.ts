import type { Client } from 'pg'
import { type Figures, figuresSection, type Section } from '../report/section.js'
import type { Filled } from './growth-sizes.js'
import { TABLE_PARTS } from './table-parts.js'
import type { Stage } from './scenario.js'

const TABLES = ['idempotency_keys', 'effects', 'staged_jobs'] as const

type TableName = (typeof TABLES)[number]

/** What a table takes on the disk, over all its partitions. */
interface TableBytes {
  readonly rows: number
  readonly heap: number
  readonly indexes: number
  readonly toast: number
}

type Row = Figures['rows'][number]

/** Bytes on the disk for each row of these tables, as they are now. */
export async function measureBytes({ arena }: Stage, filled: readonly Filled[]): Promise<Row[]> {
  const rows: Row[] = []
  for (const { label, size, schema } of filled) {
    const isFilled = size.keys > 0
    const values: (number | null)[] = []
    for (const table of TABLES) {
      // Only requests leave jobs.
      if (isFilled && table === 'staged_jobs') values.push(null, null)
      else values.push(...perRow(await tableBytes(arena.database.observer, schema, table)))
    }
    rows.push({ label: isFilled ? `${label}, filled` : `${label}, then written by requests`, values })
  }
  return rows
}

export function bytesSection(rows: readonly Row[]): Section {
  return figuresSection(
    'growth bytes',
    'Bytes on the disk per row: of the table with what is too long for it, and of its indexes',
    { columns: ['keys', 'indexes', 'effects', 'indexes', 'jobs', 'indexes'], rows },
    [
      'Filled tables were vacuumed once. Those written by requests have dead versions of their rows as well, until a vacuum.',
    ],
  )
}

function perRow({ rows, heap, indexes, toast }: TableBytes): number[] {
  return [(heap + toast) / rows, indexes / rows]
}

async function tableBytes(observer: Client, schema: string, table: TableName): Promise<TableBytes> {
  const { rows } = await observer.query<Record<keyof TableBytes, string>>(
    `SELECT sum(pg_relation_size(p.relid)) AS heap, sum(pg_indexes_size(p.relid)) AS indexes,
            sum(pg_table_size(p.relid) - pg_relation_size(p.relid)) AS toast,
            (SELECT count(*) FROM "${schema}"."${table}") AS rows
       FROM (${TABLE_PARTS}) AS p`,
    [schema, table],
  )
  const [one] = rows
  return {
    rows: Number(one?.rows),
    heap: Number(one?.heap),
    indexes: Number(one?.indexes),
    toast: Number(one?.toast),
  }
}
