import { type Commit, KIT, type Row } from '../history.js'
import { businessChanges } from './phase-changes.js'
import { jsonText } from './same-json.js'

/** A row that the case wrote. Rows have no ids here; they are identified by their contents. */
interface Tracked {
  readonly table: string
  /** Whether it was there before the case began. */
  readonly isOld: boolean
  /** Null once it is deleted. */
  now: Row | null
  /** As it was before the case. */
  readonly first: Row
}

/**
 * Returns what committed transactions did to the business tables: the inserted and changed rows as they are at the end, in the order
 * of their first write. Deleted rows that were there before the case are listed under the table's name with a `-`.
 */
export function businessRows(commits: readonly Commit[]): Record<string, Row[]> {
  const tracked: Tracked[] = []
  for (const commit of commits) {
    for (const { table, before, after } of businessChanges(commit)) {
      const known = before === null ? undefined : find(tracked, table, before)
      if (known !== undefined) known.now = after
      // What the kit does to rows that the case has not touched is not part of the case.
      else if (commit.actor !== KIT) {
        const first = before ?? after
        if (first !== null) tracked.push({ table, isOld: before !== null, now: after, first })
      }
    }
  }
  return byTable(tracked)
}

/** If rows are equal, any of them will do. */
function find(tracked: readonly Tracked[], table: string, row: Row): Tracked | undefined {
  const text = jsonText(row)
  return tracked.find((each) => each.table === table && each.now !== null && jsonText(each.now) === text)
}

function byTable(tracked: readonly Tracked[]): Record<string, Row[]> {
  const tables: Record<string, Row[]> = {}
  for (const { table, isOld, now, first } of tracked) {
    if (now !== null) (tables[table] ??= []).push(now)
    else if (isOld) (tables[`-${table}`] ??= []).push(first)
  }
  return tables
}
