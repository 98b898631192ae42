import type { Row } from '../history.js'
import { isSameJson } from './same-json.js'

/** A recovery point that was reached, and the fence under which it was. */
interface TrailEntry {
  readonly p: string
  readonly f: number
  /** Whether it was skipped. */
  readonly s?: boolean
  /** Whether its call has an unknown outcome, and the request went on without it. */
  readonly u?: boolean
}

/** What the rules read from a key's row. */
export interface KeyState {
  readonly row: Row
  readonly id: string
  /** Scope and key: unique among the existing rows. */
  readonly name: string
  readonly version: number
  readonly definitionHash: string
  readonly recoveryPoint: string
  readonly status: string
  readonly stuckReason: string | null
  readonly fence: number
  readonly holder: string
  readonly leaseUntilMs: number | null
  readonly attempts: number
  readonly effectEpoch: number
  readonly trail: readonly TrailEntry[]
  readonly updatedMs: number
  readonly expiresMs: number | null
}

export function readKey(row: Row): KeyState {
  return {
    row,
    id: textIn(row, 'id'),
    name: JSON.stringify([row['scope'], row['key']]),
    version: Number(row['version']),
    definitionHash: textIn(row, 'definition_hash'),
    recoveryPoint: textIn(row, 'recovery_point'),
    status: textIn(row, 'status'),
    stuckReason: row['stuck_reason'] == null ? null : textIn(row, 'stuck_reason'),
    fence: Number(row['fence']),
    holder: textIn(row, 'holder'),
    leaseUntilMs: timeIn(row, 'lease_until'),
    attempts: Number(row['attempts']),
    effectEpoch: Number(row['effect_epoch']),
    trail: (row['trail'] ?? []) as unknown as readonly TrailEntry[],
    updatedMs: timeIn(row, 'updated_at') ?? 0,
    expiresMs: timeIn(row, 'expires_at'),
  }
}

/** Returns the names of the columns in which two versions of a row differ. */
export function changedColumns(before: Row, after: Row): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].filter((name) => !isSameJson(before[name], after[name]))
}

/** Describes where a key is, for a violation. */
export function whereIs({ recoveryPoint, fence }: KeyState): string {
  return `at '${recoveryPoint}' under fence ${fence}`
}

export function textIn(row: Row, column: string): string {
  const value = row[column]
  return typeof value === 'string' ? value : ''
}

/** Cuts off PostgreSQL's microseconds, on both sides of every comparison. */
function timeIn(row: Row, column: string): number | null {
  const value = row[column]
  return typeof value === 'string' ? Date.parse(value) : null
}
