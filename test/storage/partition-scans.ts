import { parentNames } from '../support/parent-names.js'
import type { TestDatabase } from '../support/test-database.js'

/** What a statement has read of tables that are divided. */
export interface Reading {
  /** Partitions that were read from one end to the other. */
  readonly wholePartitions: readonly string[]
  /** How often each partition was gone through by the same index, where that was most often. */
  readonly passes: number
  /** Rows that were read in doing so, including those that did not fit. */
  readonly rows: number
  /** Rows that were looked up by their names, each of them in one partition. */
  readonly lookUps: number
  /** How often the usage of a scope was looked at, beside what it takes to write it. */
  readonly usageLooks: number
}

/** As PostgreSQL writes them: lists are `{…}`. */
export type Values = readonly (string | number | null)[]

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly 'Actual Loops': number
  readonly 'Actual Rows': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Plan[]
}

const SCANS = ['Seq Scan', 'Index Scan', 'Index Only Scan', 'Bitmap Heap Scan']

interface Statement {
  readonly text: string
  readonly values: Values
}

/** For these values, or for any. */
type PlannedFor = 'custom' | 'generic'

const EXECUTED = 'ANALYZE, TIMING OFF, BUFFERS OFF, '

/** Returns which partitions a statement that is kept prepared would look into for these values. It is not executed. */
export async function partitionsFor(database: TestDatabase, statement: Statement): Promise<string[]> {
  const parentOf = await parentNames(database)
  const nodes = flatten(await planOf(database, statement, 'generic', ''))
  const read = nodes.filter(({ 'Node Type': type }) => SCANS.includes(type)).map(nameOf)
  return [...new Set(read.filter((name) => parentOf(name) !== name))]
}

const nameOf = (scan: Plan): string => scan['Relation Name'] ?? ''

/** Executes a statement, undoes it, and returns what it has read. */
export async function readingOf(
  database: TestDatabase,
  statement: Statement,
  plan: PlannedFor,
): Promise<Reading> {
  const parentOf = await parentNames(database)
  const nodes = flatten(await planOf(database, statement, plan, EXECUTED))
  const scans = nodes.filter(
    ({ 'Node Type': type, 'Actual Loops': loops }) => SCANS.includes(type) && loops > 0,
  )
  const usage = scans.filter((scan) => parentOf(nameOf(scan)) === 'scope_usage')
  return {
    ...sumUp(scans.filter((scan) => parentOf(nameOf(scan)) !== nameOf(scan))),
    usageLooks: sum(usage, (scan) => scan['Actual Loops']),
  }
}

async function planOf(
  database: TestDatabase,
  { text, values }: Statement,
  plan: PlannedFor,
  options: string,
): Promise<Plan> {
  const client = await database.admin.connect()
  try {
    const literals = values.map((value) => (value === null ? 'NULL' : client.escapeLiteral(String(value))))
    await client.query(`BEGIN; SET LOCAL plan_cache_mode = force_${plan}_plan; PREPARE explained AS ${text}`)
    const executed =
      literals.length === 0 ? 'EXECUTE explained' : `EXECUTE explained (${literals.join(', ')})`
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
      `EXPLAIN (${options}FORMAT JSON) ${executed}`,
    )
    return rows[0]?.['QUERY PLAN'][0].Plan as Plan
  } finally {
    await client.query('ROLLBACK; DEALLOCATE ALL')
    client.release()
  }
}

const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)]

/** The index of a bitmap scan is named by the node that fills the bitmap. */
const indexOf = (scan: Plan): Plan => (scan['Index Name'] === undefined ? (scan.Plans?.[0] ?? scan) : scan)

function sumUp(scans: readonly Plan[]): Omit<Reading, 'usageLooks'> {
  const named = scans.filter((scan) => /\bscope = /.test(indexOf(scan)['Index Cond'] ?? ''))
  const searching = scans.filter((scan) => !named.includes(scan))
  const passes = new Map<string, number>()
  for (const scan of searching) {
    const index = indexOf(scan)['Index Name'] ?? ''
    passes.set(index, (passes.get(index) ?? 0) + scan['Actual Loops'])
  }
  const isWhole = (scan: Plan): boolean => scan['Node Type'] === 'Seq Scan'
  return {
    wholePartitions: scans.filter(isWhole).map(nameOf),
    passes: Math.max(0, ...passes.values()),
    rows: sum(
      searching,
      (scan) => scan['Actual Loops'] * (scan['Actual Rows'] + (scan['Rows Removed by Filter'] ?? 0)),
    ),
    lookUps: sum(named, (scan) => scan['Actual Loops']),
  }
}

function sum(scans: readonly Plan[], of: (scan: Plan) => number): number {
  return scans.reduce((total, scan) => total + of(scan), 0)
}
