import type { ReplayPosition } from '../storage/keys/find-key-on-replica.js'
import type { WrittenPosition } from '../storage/keys/read-written-position.js'

/** Why a replica may not answer, in words for a person. */
export type Unfit = string

/**
 * Returns null if a replica knows of everything that the primary had committed when it was asked for its position. Pure. Two
 * servers may have the same position and different pasts, so a position counts only within one database and one timeline.
 */
export function judgeReplica(at: ReplayPosition, written: WrittenPosition): Unfit | null {
  if (!at.inRecovery) return NOT_A_REPLICA
  if (at.database !== written.database) return OTHER_DATABASE
  if (at.timeline !== written.timeline) return OTHER_TIMELINE
  return at.position !== null && at.position >= written.position ? null : BEHIND
}

const NOT_A_REPLICA =
  'replayFrom leads to a server that is not a replica: to the primary itself, or to a replica that was promoted. Nothing is ' +
  'replayed from there.'

const OTHER_DATABASE =
  'replayFrom leads to another database than pool, or to a copy of another one. Nothing is replayed from there.'

const OTHER_TIMELINE =
  'The replica of replayFrom is on another timeline than the primary, as after a failover. Nothing is replayed from it until ' +
  'it follows the new primary, and has completed a restartpoint since.'

const BEHIND =
  'The replica of replayFrom is further behind the primary than replayMaxLagMs. Replays come from the primary meanwhile.'
