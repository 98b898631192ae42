import { DATABASE } from './database.js'
import { findKeyToReplayStatement } from './find-key.js'
import { type KeyRow, readKeyRow } from './key-row.js'
import { defineStatement, type Store } from '../statement.js'

/** How far a replica has come. */
export interface ReplayPosition {
  /** False for a primary: the one that the application writes to, or a replica that was promoted. */
  readonly inRecovery: boolean
  /** Which database of which cluster it is a copy of. */
  readonly database: string
  /** The timeline it follows, or an earlier one until its next restartpoint after a failover; never a later one. */
  readonly timeline: number
  /** How many bytes of the log it has replayed; null when it replays none. */
  readonly position: bigint | null
}

/** What a replica says about a key. */
export interface ReplicaAnswer {
  /** How far the replica was, at the least, when it looked for the key. */
  readonly at: ReplayPosition
  readonly row: KeyRow | null
}

/**
 * Asks a replica how far it has come. Every role may call these functions. What the server is receiving would name its
 * timeline at once, but only to roles that may read all statistics.
 */
const readReplayPositionStatement = defineStatement(
  'read_replay_position',
  () => `
  SELECT pg_is_in_recovery() AS in_recovery,
         pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'::pg_lsn) AS position,
         ${DATABASE} AS database,
         (SELECT greatest(c.timeline_id, r.min_recovery_end_timeline)
            FROM pg_control_checkpoint() AS c CROSS JOIN pg_control_recovery() AS r) AS timeline`,
)

/**
 * Reads a key's row on a replica, and before that how far the replica is. In this order: a position that is read after the
 * row, or by the same statement, can be later than what the row was read from. In one transaction, because behind a pooler or
 * a load balancer the next one may be on another replica.
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
  return {
    at: readPosition(position?.rows[0] ?? {}),
    row: row === undefined ? null : readKeyRow(row, tables),
  }
}

function readPosition(row: Readonly<Record<string, string | null>>): ReplayPosition {
  return {
    inRecovery: row['in_recovery'] === 't',
    database: row['database'] ?? '',
    timeline: Number(row['timeline']),
    position: row['position'] == null ? null : BigInt(row['position']),
  }
}
