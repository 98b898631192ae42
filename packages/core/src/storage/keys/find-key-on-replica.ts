import { findKeyToReplayStatement } from './find-key.js'
import { type KeyRow, readKeyRow } from './key-row.js'
import { readReplayPosition, readReplayPositionStatement, type ReplayPosition } from './read-replay-position.js'
import type { Store } from '../statement.js'

/** What a replica says about a key. */
export interface ReplicaAnswer {
  /** How far the replica was, at the least, when it looked for the key. */
  readonly at: ReplayPosition
  readonly row: KeyRow | null
}

/**
 * Reads a key's row on a replica, and before that how far the replica is. In this order, in one transaction: a position that
 * is read after the row, or by the same statement, can be later than what the row was read from. In one transaction, because
 * behind a pooler or a load balancer the next one may be on another replica.
 */
export async function findKeyOnReplica(
  { session, tables }: Store,
  scope: string,
  key: string,
): Promise<ReplicaAnswer> {
  const [position, found] = await session.runInOrder([
    readReplayPositionStatement.bind(tables, []),
    findKeyToReplayStatement.bind(tables, [scope, key]),
  ])
  const row = found?.rows[0]
  return { at: readReplayPosition(position?.rows[0] ?? {}), row: row === undefined ? null : readKeyRow(row) }
}
