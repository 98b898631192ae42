import { type Commit, type History, KIT, type PipelineShape, type Violation } from '../history.js'
import type { CleanRun } from './clean-run.js'
import { countChanges, describeChanges } from './describe-changes.js'
import { advancesIn, isSteered } from './key-writes.js'
import { businessChanges, moveName } from './phase-changes.js'

/** I4: business rows and the recovery point they belong to are written by one transaction. */
export function phaseTransactions(
  { commits }: History,
  _shape: PipelineShape,
  clean: CleanRun | null,
): Violation[] {
  return commits
    .filter(({ actor }) => actor !== KIT)
    .flatMap((commit) => [...movesOneKey(commit), ...(clean === null ? [] : asInCleanRun(commit, clean))])
}

/** Rows of a transaction that moves no key are checked by I15. */
function movesOneKey(commit: Commit): Violation[] {
  const written = businessChanges(commit)
  const moves = advancesIn(commit)
  if (written.length === 0 || moves.length <= 1) return []
  const detail =
    `${commit.actor} wrote business rows in a transaction that moved ${moves.length} keys: ` +
    `${describeChanges({ changes: written })}.`
  return [{ rule: 'I4', title: 'business rows commit together with the recovery point of one key', detail }]
}

/** Compares the numbers of rows. Their contents are compared at the end. */
function asInCleanRun(commit: Commit, { changes, isTableIgnored }: CleanRun): Violation[] {
  if (isSteered(commit)) return []
  const written = businessChanges(commit).filter(({ table }) => !isTableIgnored(table))
  const counts = countChanges(written)
  return advancesIn(commit).flatMap(({ before, after, actor }) => {
    const expected = changes.get(moveName(before.recoveryPoint, after.recoveryPoint))
    if (expected === undefined || said(expected) === said(counts)) return []
    const detail =
      `${actor} moved the key from '${before.recoveryPoint}' to '${after.recoveryPoint}' under fence ${after.fence} ` +
      `and wrote ${said(counts)}; the clean run wrote ${said(expected)}.`
    return [{ rule: 'I4', title: "a phase's rows exist exactly when its recovery point is reached", detail }]
  })
}

function said(counts: ReadonlyMap<string, number>): string {
  const list = [...counts].map(([what, count]) => `${what} (${count})`)
  return list.length === 0 ? 'no business rows' : list.toSorted().join(', ')
}
