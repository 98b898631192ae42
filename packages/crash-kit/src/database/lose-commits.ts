import type pg from 'pg'
import { KitError } from '../kit-error.js'
import { UNDO_LOCK_TIMEOUT_MS } from '../limits.js'
import type { KitSchemas } from './kit-schemas.js'
import { outdateCopies } from './pass-time.js'
import { SINCE_MARK } from './read-history.js'
import { quotedTable, readForeignKeyChecks, readTriggers } from './standing-rules.js'
import { readColumns, type TableColumns } from './table-columns.js'
import { textRows } from './text-rows.js'
import { undoStatement } from './undo-change.js'

const LOCK_NOT_AVAILABLE = '55P03'

const IS_LOST = '($2::xid8[] IS NULL OR h.transaction = ANY ($2::xid8[]))'

/** A recorded change, with whole rows as text. */
interface Recorded {
  readonly schema: string
  readonly table: string
  readonly op: 'INSERT' | 'UPDATE' | 'DELETE'
  readonly before: string | null
  readonly after: string | null
}

/** What is lost: everything since a mark, or some of those transactions. They have to be the last ones to commit. */
export interface Loss {
  readonly mark: number
  /** Null stands for all of them. */
  readonly transactions: readonly string[] | null
}

/** Takes back what is lost, the last change first, and deletes it from the history. */
export async function loseCommits(pool: pg.Pool, schemas: KitSchemas, loss: Loss): Promise<void> {
  const client = await pool.connect()
  try {
    // One snapshot, so that exactly what is taken back is deleted from the history.
    await client.query(
      `BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = ${UNDO_LOCK_TIMEOUT_MS}`,
    )
    await undoAll(client, schemas, loss)
    await client.query('COMMIT')
    // By itself, because an engine may be writing that row, which is no reason to begin again.
    await client.query(outdateCopies(schemas.pawl))
  } catch (error) {
    await client.query('ROLLBACK')
    throw explain(error)
  } finally {
    client.release()
  }
}

async function undoAll(client: pg.PoolClient, schemas: KitSchemas, loss: Loss): Promise<void> {
  const recorded = await readRecorded(client, schemas, loss)
  const touched = new Set(recorded.map(({ schema, table }) => quotedTable(schema, table)))
  const rules = [
    ...(await readTriggers(client, schemas)),
    ...(await readForeignKeyChecks(client, schemas)),
  ].filter(({ table }) => touched.has(table))
  for (const { suspend } of rules) await client.query(suspend)
  await client.query('SET CONSTRAINTS ALL DEFERRED')
  const known = new Map<string, TableColumns>()
  for (const change of recorded) await undo(client, known, change)
  await forget(client, schemas, loss)
  // Makes the deferred checks now, because a table with pending checks cannot be altered.
  await client.query('SET CONSTRAINTS ALL IMMEDIATE')
  for (const { resume } of rules) await client.query(resume)
}

async function readRecorded(
  client: pg.PoolClient,
  { audit, pawl, business }: KitSchemas,
  { mark, transactions }: Loss,
): Promise<Recorded[]> {
  const rows = await textRows(
    client,
    `SELECT h.table_name, h.framework, h.op, h.before_row, h.after_row
       FROM ${audit}.marks AS m JOIN ${audit}.history AS h ON ${SINCE_MARK}
      WHERE m.id = $1 AND ${IS_LOST} ORDER BY h.seq DESC`,
    [mark, transactions],
  )
  return rows.map((row) => ({
    schema: row['framework'] === 't' ? pawl : business,
    table: row['table_name'] ?? '',
    op: row['op'] as Recorded['op'],
    before: row['before_row'] ?? null,
    after: row['after_row'] ?? null,
  }))
}

async function undo(
  client: pg.PoolClient,
  known: Map<string, TableColumns>,
  change: Recorded,
): Promise<void> {
  const table = quotedTable(change.schema, change.table)
  const columns = known.get(table) ?? (await readColumns(client, change.schema, change.table))
  known.set(table, columns)
  const { text, values } = undoStatement(table, columns, change)
  const { rowCount } = await client.query(text, values)
  if (rowCount === 1) return
  throw new KitError(
    'PAWL_KIT_CANNOT_UNDO',
    `Commits cannot be lost: a row of ${change.table} is not as its last ${change.op} left it. Something that the audit does not see has changed it, such as TRUNCATE.`,
  )
}

async function forget(
  client: pg.PoolClient,
  { audit }: KitSchemas,
  { mark, transactions }: Loss,
): Promise<void> {
  await client.query(
    `DELETE FROM ${audit}.history AS h USING ${audit}.marks AS m WHERE m.id = $1 AND ${SINCE_MARK} AND ${IS_LOST}`,
    [mark, transactions],
  )
}

function explain(error: unknown): unknown {
  if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) return error
  return new KitError(
    'PAWL_KIT_LOCKED',
    'Commits cannot be lost while an actor is in the middle of a transaction. End its connections first: a failover does.',
    { cause: error },
  )
}
