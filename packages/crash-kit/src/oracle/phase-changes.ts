import { type Change, type Commit, type History, KIT } from '../history.js'
import { countChanges } from './describe-changes.js'
import { changedColumns, textIn } from './key-state.js'
import { advancesIn, isSteered, keyWritesIn } from './key-writes.js'

/** How many business rows transactions wrote, by operation and table, for each move of the recovery point. */
export type PhaseChanges = ReadonlyMap<string, ReadonlyMap<string, number>>

/** Names a move of the recovery point. */
export function moveName(from: string, to: string): string {
  return `${from} → ${to}`
}

/**
 * Returns the business rows that a transaction wrote, without those that the database itself changed because a key that they refer
 * to was deleted: ON DELETE SET NULL, or CASCADE.
 */
export function businessChanges(commit: Commit): Change[] {
  const deleted = new Set(
    keyWritesIn(commit).flatMap(({ op, before }) => (op === 'DELETE' ? [before.id] : [])),
  )
  return commit.changes.filter((change) => !change.framework && !followsDeletion(change, deleted))
}

function followsDeletion({ op, before, after }: Change, deleted: ReadonlySet<string>): boolean {
  if (before === null || deleted.size === 0) return false
  const referring = Object.keys(before).filter((column) => deleted.has(textIn(before, column)))
  if (referring.length === 0) return false
  if (after === null) return op === 'DELETE'
  return changedColumns(before, after).every((column) => referring.includes(column) && after[column] === null)
}

/** Returns one entry for each move. If a key was deleted and sent again, the last time counts. */
export function phaseChanges({ commits }: History, isIgnored: (table: string) => boolean): PhaseChanges {
  const changes = new Map<string, ReadonlyMap<string, number>>()
  for (const commit of commits) {
    if (commit.actor === KIT || isSteered(commit)) continue
    for (const { before, after } of advancesIn(commit)) {
      const counted = businessChanges(commit).filter(({ table }) => !isIgnored(table))
      changes.set(moveName(before.recoveryPoint, after.recoveryPoint), countChanges(counted))
    }
  }
  return changes
}
