import { type Change, type Commit, type History, KIT, type Violation } from '../history.js'
import { describeChanges } from './describe-changes.js'
import { advancesIn } from './key-writes.js'
import { businessChanges } from './phase-changes.js'

/**
 * I15: every row that a phase writes is written by the transaction that commits its recovery point. The audit records each write
 * with its transaction, so a stray write is found even if a later phase overwrites the row.
 */
export function ownTransaction({ commits }: History): Violation[] {
  const moved = commits
    .filter((commit) => advancesIn(commit).length > 0)
    .map(({ transaction }) => transaction)
  return commits
    .filter((commit) => commit.actor !== KIT && advancesIn(commit).length === 0)
    .flatMap((commit) => {
      const written = rowsOfPhases(commit)
      return written.length === 0 ? [] : [violation(commit, written, moved)]
    })
}

/** Jobs have their own rule, I13. */
function rowsOfPhases(commit: Commit): Change[] {
  return [...businessChanges(commit), ...commit.changes.filter(isNewEffect)]
}

function isNewEffect({ framework, table, op }: Change): boolean {
  return framework && table === 'effects' && op === 'INSERT'
}

function violation(
  { actor, transaction }: Commit,
  written: readonly Change[],
  moved: readonly string[],
): Violation {
  const movers = moved.length === 0 ? 'none did' : `these did: ${moved.join(', ')}`
  return {
    rule: 'I15',
    title: "a phase's rows are written by the transaction that commits its recovery point",
    detail:
      `${actor} wrote ${describeChanges({ changes: written })} in transaction ${transaction}, ` +
      `which moved no recovery point (${movers}).`,
  }
}
