import { type Commit, KIT, type Row } from '../history.js'
import { businessChanges } from './phase-changes.js'
import { jsonText } from './same-json.js'

/** A row that the case wrote. Rows have no name here: they are known by what is in them. */
interface Tracked {
  readonly table: string
  /** It was there before the case began. */
  readonly isOld: boolean
  /** Null: deleted. */
  now: Row | null
  /** As it was before the case. */
  readonly first: Row
}

/**
 * What committed transactions made of the business tables: rows that were inserted or changed, in the order of their
 * first write, as they are at the end. Rows of before that were deleted are listed under the table's name with a `-`.
 */
export function businessRows(commits: readonly Commit[]): Record<string, Row[]> {
  const tracked: Tracked[] = []
  for (const commit of commits) {
    for (const { table, before, after } of businessChanges(commit)) {
      const known = before === null ? undefined : find(tracked, table, before)
      if (known !== undefined) known.now = after
      // What the kit does to rows that the case has not touched is no part of it.
      else if (commit.actor !== KIT) {
        const first = before ?? after
        if (first !== null) tracked.push({ table, isOld: before !== null, now: after, first })
      }
    }
  }
  return byTable(tracked)
}

/** Of rows that are alike, one is as good as another. */
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
