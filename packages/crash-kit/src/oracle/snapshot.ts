import type { JsonValue } from '@pawl/core'
import { type Commit, type History, KIT, type ProviderRequest, type Row } from '../history.js'
import { businessRows } from './business-rows.js'
import { readKey, textIn } from './key-state.js'
import { incarnations, keyWritesIn } from './key-writes.js'

/** How a case ended: everything that has to be the same as without faults. */
export type Snapshot = {
  /** Business rows that the case wrote. Older rows that it deleted are under the table's name with a `-`. */
  readonly tables: Readonly<Record<string, readonly Row[]>>
  readonly jobs: readonly Row[]
  readonly effects: readonly Row[]
  /** Null if no key was reserved. */
  readonly key: KeySnapshot | null
  /** Null if none is stored. */
  readonly response: ResponseSnapshot | null
  /** Effects at the provider, in order. */
  readonly provider: readonly EffectSnapshot[]
}

export type KeySnapshot = {
  readonly id: string
  readonly scope: string
  readonly key: string
  readonly status: string
  readonly stuck_reason: string | null
  readonly recovery_point: string
  readonly state: JsonValue
  /** Recovery points reached or skipped. */
  readonly points: readonly string[]
}

type ResponseSnapshot = {
  readonly status: number
  readonly headers: JsonValue
  /** Parsed if it is JSON, or else as text, or else as base64. */
  readonly body: JsonValue
}

type EffectSnapshot = {
  readonly phase: string | null
  readonly method: string
  readonly path: string
  /** Parsed if it is JSON. */
  readonly body: JsonValue
}

/** Replays what was committed. If the key was deleted and sent again, only the last time counts. */
export function snapshotOf(history: Pick<History, 'commits' | 'requests'>): Snapshot {
  const keyId = incarnations(history).at(-1) ?? null
  const commits = history.commits.filter((commit) => !isOfAnotherKey(commit, keyId))
  const row = lastRow(commits)
  return {
    tables: businessRows(commits),
    jobs: inserted(commits, 'staged_jobs').map((job) => pick(job, ['id', 'name', 'payload', 'key_id'])),
    effects: inserted(commits, 'effects').map((effect) =>
      pick(effect, [
        'key_id',
        'scope',
        'key',
        'pipeline',
        'version',
        'phase',
        'effect',
        'provider_key',
        'reference',
      ]),
    ),
    key: row === null ? null : keyOf(row),
    response: row === null ? null : responseOf(row),
    provider: history.requests.filter(({ executed }) => executed).map(effectOf),
  }
}

/** Returns the snapshot at the moment when this recovery point was reached; null if it never was. */
export function snapshotAt(history: Pick<History, 'commits' | 'requests'>, point: string): Snapshot | null {
  const keyId = incarnations(history).at(-1)
  const reached = history.commits.findIndex((commit) =>
    keyWritesIn(commit).some(({ after }) => after?.id === keyId && after?.recoveryPoint === point),
  )
  return reached === -1 ? null : snapshotOf({ ...history, commits: history.commits.slice(0, reached + 1) })
}

function isOfAnotherKey(commit: Commit, keyId: string | null): boolean {
  const ids = keyWritesIn(commit).map(({ before, after }) => (after ?? before)?.id)
  return ids.length > 0 && !ids.includes(keyId ?? '')
}

/** Returns the key's row as it last was, even if it is deleted. */
function lastRow(commits: readonly Commit[]): Row | null {
  const last = commits.flatMap(keyWritesIn).at(-1)
  return (last?.after ?? last?.before)?.row ?? null
}

function inserted(commits: readonly Commit[], table: string): Row[] {
  return commits
    .filter(({ actor }) => actor !== KIT)
    .flatMap(({ changes }) => changes)
    .flatMap((change) =>
      change.framework && change.table === table && change.op === 'INSERT' ? [change.after] : [],
    )
    .filter((row) => row !== null)
}

function pick(row: Row, columns: readonly string[]): Row {
  return Object.fromEntries(columns.map((column) => [column, row[column] ?? null]))
}

function keyOf(row: Row): KeySnapshot {
  const { id, status, stuckReason, recoveryPoint, trail } = readKey(row)
  return {
    id,
    scope: textIn(row, 'scope'),
    key: textIn(row, 'key'),
    status,
    stuck_reason: stuckReason,
    recovery_point: recoveryPoint,
    state: row['state'] ?? null,
    points: trail.map(({ p }) => p),
  }
}

function responseOf(row: Row): ResponseSnapshot | null {
  if (row['response_status'] == null) return null
  const bytes = Buffer.from(textIn(row, 'response_body').replace(/^\\x/, ''), 'hex')
  const text = bytes.toString()
  const isText = Buffer.from(text).equals(bytes)
  return {
    status: Number(row['response_status']),
    headers: row['response_headers'] ?? null,
    body: isText ? parsed(text) : bytes.toString('base64'),
  }
}

function effectOf({ phase, method, path, body }: ProviderRequest): EffectSnapshot {
  return { phase, method, path, body: parsed(body) }
}

function parsed(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return text
  }
}
