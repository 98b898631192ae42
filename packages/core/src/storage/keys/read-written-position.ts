import { defineStatement, epochMs, NOW, type Store } from '../statement.js'

/** How far the primary has come: everything that it had committed is written in its log before this position. */
export interface WrittenPosition {
  readonly system: string
  readonly timeline: number
  readonly position: bigint
  /** The primary's clock, rounded down. */
  readonly nowMs: number
}

/**
 * Where the next record goes, and not how much has reached the disk: a commit that does not wait for the disk is already
 * seen by others. The name of a log file begins with the timeline, which the control file learns only at a checkpoint.
 */
const readWrittenPositionStatement = defineStatement(
  'read_written_position',
  () => `
  SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'::pg_lsn) AS position,
         substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) AS timeline,
         (SELECT s.system_identifier FROM pg_control_system() AS s) AS system,
         ${epochMs(NOW)} AS now_ms`,
)

/** Asks the primary how far it has come. Fails on a replica, which writes nothing. */
export async function readWrittenPosition(store: Store): Promise<WrittenPosition> {
  const { rows } = await readWrittenPositionStatement(store, [], 'read')
  const { position, timeline, system, now_ms: nowMs } = rows[0] ?? {}
  return {
    system: system ?? '',
    timeline: Number.parseInt(timeline ?? '', 16),
    position: BigInt(position ?? ''),
    nowMs: Number(nowMs),
  }
}
