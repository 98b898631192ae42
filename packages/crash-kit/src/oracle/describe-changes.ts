import type { Change, Commit } from '../history.js'

/** Describes what a transaction did, such as `INSERT rides, UPDATE idempotency_keys`. */
export function describeChanges({ changes }: Pick<Commit, 'changes'>): string {
  return [...countChanges(changes)]
    .map(([what, count]) => (count === 1 ? what : `${what} (${count} rows)`))
    .join(', ')
}

/** Counts the written rows by operation and table. */
export function countChanges(changes: readonly Change[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { op, table } of changes) {
    const what = `${op} ${table}`
    counts.set(what, (counts.get(what) ?? 0) + 1)
  }
  return counts
}
