import type { JsonValue } from '@pawl/core'
import type { History, Violation } from '../history.js'
import { MAX_DIFFERENCES } from '../limits.js'
import { type Decisions, decisionsOf } from './decisions.js'
import { checkIgnored, ignoredPaths } from './ignored-paths.js'
import { incarnations, keyWritesIn } from './key-writes.js'
import { type PhaseChanges, phaseChanges } from './phase-changes.js'
import { isSameJson } from './same-json.js'
import { type KeySnapshot, type Snapshot, snapshotAt, snapshotOf } from './snapshot.js'
import type { RunTimes } from './volatile-values.js'
import { differencesFrom, type Baseline, baselineOf } from './baseline.js'

/** How the request ends without faults, and which values are new in each run. */
export interface CleanRun {
  readonly snapshot: Snapshot
  readonly whole: Baseline
  /** The same at each recovery point: what a key that is stuck there must have. */
  readonly upTo: ReadonlyMap<string, Baseline>
  /** What each phase wrote, without ignored tables, where both runs agree. */
  readonly changes: PhaseChanges
  /** Whether each phase was skipped. */
  readonly decisions: Decisions
  /** The types of outcomes that callers got. */
  readonly outcomeTypes: ReadonlySet<string>
  readonly isTableIgnored: (table: string) => boolean
}

/**
 * Learns from two runs without faults. Values in which they differ are ids and times: they are not compared, but have to be equal to
 * each other in the same places. `ignore` lists paths to leave out, such as `tables.rides.note`.
 */
export function cleanRunOf(one: History, other: History, ignore: readonly string[]): CleanRun {
  const snapshots = [snapshotOf(one), snapshotOf(other)] as const
  checkIgnored(ignore, snapshots)
  const isIgnored = ignoredPaths(ignore)
  const times: RunTimes = [beginOf(one), beginOf(other)]
  const isTableIgnored = (table: string) => isIgnored(['tables', table])
  const upTo = new Map<string, Baseline>()
  for (const point of ['started', ...(snapshots[0].key?.points ?? [])]) {
    const [here, there] = [snapshotAt(one, point), snapshotAt(other, point)]
    if (here !== null && there !== null) {
      upTo.set(point, baselineOf(settledPart(here), settledPart(there), isIgnored, times))
    }
  }
  return {
    snapshot: snapshots[0],
    whole: baselineOf(jsonOf(snapshots[0]), jsonOf(snapshots[1]), isIgnored, times),
    upTo,
    changes: agreedChanges(phaseChanges(one, isTableIgnored), phaseChanges(other, isTableIgnored)),
    decisions: decisionsOf(one),
    outcomeTypes: new Set([...one.outcomes, ...other.outcomes].map(({ outcome }) => outcome.type)),
    isTableIgnored,
  }
}

/** How a run may differ from the clean one. */
interface Allowed {
  /** A fault has struck that only a person can resolve. */
  readonly mayBeStuck?: boolean
  /** A call was made that nobody could know of any more, so that there may be a second effect. */
  readonly mayRepeat?: boolean
}

/** Returns where the run ended differently from the clean one. */
export function compareWithClean(
  clean: CleanRun,
  history: History,
  { mayBeStuck = false, mayRepeat = false }: Allowed = {},
): Violation[] {
  const snapshot = snapshotOf(history)
  const { key } = snapshot
  if (key === null && clean.snapshot.key !== null) return [violation('No key was ever reserved.')]
  if (key?.status === 'stuck' && clean.snapshot.key?.status !== 'stuck') {
    return compareStuck(clean, snapshot, key, mayBeStuck)
  }
  const known = knownUntil(history, key)
  if (known !== null) return compareUntil(clean, history, known)
  // Effects under a key that was deleted belong to an earlier request, and a provider may still know them.
  const wasForgotten = incarnations(history).length > 1 || mayRepeat
  return violationsOf(
    differencesFrom(clean.whole, jsonOf(snapshot), ([first]) => wasForgotten && first === 'provider'),
  )
}

/**
 * Returns the last point before a call whose outcome nobody knows, if the request went on without it: what it came to from there on
 * is for `whenUnknown` to say. Null if there was no such call.
 */
function knownUntil({ commits }: History, key: KeySnapshot | null): string | null {
  const row = commits.flatMap(keyWritesIn).findLast(({ after }) => after?.id === key?.id)?.after
  const trail = row?.trail ?? []
  const unknown = trail.findIndex(({ u = false }) => u)
  return unknown === -1 ? null : (trail[unknown - 1]?.p ?? 'started')
}

/** Up to that point, everything must be what the clean run had there. */
function compareUntil(clean: CleanRun, history: History, point: string): Violation[] {
  const baseline = clean.upTo.get(point)
  const snapshot = snapshotAt(history, point)
  return baseline === undefined || snapshot === null
    ? []
    : violationsOf(differencesFrom(baseline, settledPart(snapshot)))
}

/** A stuck key must have what the clean run had at the same point, and no response. */
function compareStuck(
  clean: CleanRun,
  snapshot: Snapshot,
  key: KeySnapshot,
  mayBeStuck: boolean,
): Violation[] {
  const { stuck_reason: reason, recovery_point: point } = key
  if (!mayBeStuck) {
    return [violation(`The key ended stuck at '${point}' (${reason}), but the clean run finished.`)]
  }
  const baseline = clean.upTo.get(point)
  if (baseline === undefined) {
    return [violation(`The key ended stuck at '${point}', where the clean run never was.`)]
  }
  return violationsOf(differencesFrom(baseline, settledPart(snapshot)))
}

/** Returns what is certain about an unfinished key. A call after its last recovery point may or may not have been made. */
function settledPart({ tables, jobs, effects, key, provider }: Snapshot): JsonValue {
  const { id = null, scope = null, key: name = null, state = null, points = [] } = key ?? {}
  const settled = provider.filter(({ phase }) => phase !== null && points.includes(phase))
  return jsonOf({ tables, jobs, effects, key: { id, scope, key: name, state, points }, provider: settled })
}

function violationsOf(differences: readonly string[]): Violation[] {
  const shown = differences.slice(0, MAX_DIFFERENCES).map((difference) => violation(`${difference}.`))
  const left = differences.length - shown.length
  return left > 0 ? [...shown, violation(`… and ${left} more differences.`)] : shown
}

function violation(detail: string): Violation {
  return {
    rule: 'oracle',
    title: 'the end is that of a run without faults, except for ids and times',
    detail,
  }
}

function agreedChanges(one: PhaseChanges, other: PhaseChanges): PhaseChanges {
  return new Map([...one].filter(([move, counts]) => isSameJson(asJson(counts), asJson(other.get(move)))))
}

function asJson(counts: ReadonlyMap<string, number> | undefined): Record<string, number> | null {
  return counts === undefined ? null : Object.fromEntries(counts)
}

function beginOf({ commits }: History): number {
  return commits[0]?.changes[0]?.atMs ?? 0
}

/** Rows and snapshots are made of JSON values. */
function jsonOf(snapshot: object): JsonValue {
  return snapshot as JsonValue
}
