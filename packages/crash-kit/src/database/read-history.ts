import type { Change, Commit, Row } from '../history.js'
import { actorOf } from './backends.js'
import type { KitSchemas } from './kit-schemas.js'
import { epochMs, type Queryable, type TextRow, textRows } from './text-rows.js'

/**
 * Remembers which transactions have committed by now. A number in the history would not do: what was written before it may commit
 * after it.
 */
export async function setMark(on: Queryable, { audit }: KitSchemas): Promise<number> {
  const [row] = await textRows(
    on,
    `INSERT INTO ${audit}.marks (snapshot) VALUES (pg_current_snapshot()) RETURNING id`,
  )
  return Number(row?.['id'])
}

/** Selects what of the history `h` was committed after the mark `m`. The first condition uses the index. */
export const SINCE_MARK = `h.transaction >= pg_snapshot_xmin(m.snapshot) AND NOT pg_visible_in_snapshot(h.transaction, m.snapshot)`

/** Reads everything that was committed after the mark, in the order in which the key's row was written. */
export async function readCommits(on: Queryable, { id, audit }: KitSchemas, mark: number): Promise<Commit[]> {
  const rows = await textRows(
    on,
    `SELECT h.seq, h.transaction, h.application_name, h.table_name, h.framework, h.op, h.before, h.after,
            ${epochMs('h.written_at')} AS at_ms
       FROM ${audit}.marks AS m JOIN ${audit}.history AS h ON ${SINCE_MARK}
      WHERE m.id = $1 ORDER BY h.seq`,
    [mark],
  )
  return inCommitOrder(rows.map((row) => ({ ...readWriter(id, row), change: readChange(row) })))
}

interface Written {
  readonly transaction: string
  readonly actor: string
  readonly change: Change
}

function readWriter(id: string, row: TextRow): Omit<Written, 'change'> {
  return { transaction: row['transaction'] ?? '', actor: actorOf(id, row['application_name'] ?? '') }
}

function readChange(row: TextRow): Change {
  return {
    seq: Number(row['seq']),
    table: row['table_name'] ?? '',
    framework: row['framework'] === 't',
    op: row['op'] as Change['op'],
    before: readRow(row['before']),
    after: readRow(row['after']),
    atMs: Number(row['at_ms']),
  }
}

export function readRow(json: string | null | undefined): Row | null {
  return json == null ? null : (JSON.parse(json) as Row)
}

/** Groups the changes by transaction, and puts the transactions in the order of their commits. */
function inCommitOrder(written: readonly Written[]): Commit[] {
  const commits = new Map<string, { transaction: string; actor: string; changes: Change[] }>()
  for (const { transaction, actor, change } of written) {
    const commit = commits.get(transaction)
    if (commit === undefined) commits.set(transaction, { transaction, actor, changes: [change] })
    else commit.changes.push(change)
  }
  return [...commits.values()].toSorted((one, other) => turnOf(one) - turnOf(other))
}

/**
 * Whoever writes the key's row has its lock until the commit, so those writes are in the order of the commits. Of other
 * transactions, only the time when they began to write is known.
 */
function turnOf({ changes }: Commit): number {
  const first = changes[0]?.seq ?? 0
  return changes.findLast(({ framework, table }) => framework && table === 'idempotency_keys')?.seq ?? first
}
