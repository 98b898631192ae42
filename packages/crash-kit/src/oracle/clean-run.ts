import type { JsonValue } from '@pawl/core'
import type { History, Violation } from '../history.js'
import { MAX_DIFFERENCES } from '../limits.js'
import { type Decisions, decisionsOf } from './decisions.js'
import { checkIgnored, ignoredPaths } from './ignored-paths.js'
import { incarnations } from './key-writes.js'
import { type PhaseChanges, phaseChanges } from './phase-changes.js'
import { isSameJson } from './same-json.js'
import { type KeySnapshot, type Snapshot, snapshotAt, snapshotOf } from './snapshot.js'
import type { RunTimes } from './volatile-values.js'
import { differencesFrom, type Yardstick, yardstickOf } from './yardstick.js'

/** What the request comes to without faults, and what of that is new each time. */
export interface CleanRun {
  readonly snapshot: Snapshot
  readonly whole: Yardstick
  /** The same at each recovery point: what a key that is stuck there has to have. */
  readonly upTo: ReadonlyMap<string, Yardstick>
  /** What each phase wrote, without tables that are ignored. Only where both runs agree. */
  readonly changes: PhaseChanges
  /** Which phases were skipped. */
  readonly decisions: Decisions
  /** Types of outcomes that were told. */
  readonly told: ReadonlySet<string>
  readonly isTableIgnored: (table: string) => boolean
}

/**
 * Learns from two runs without faults. Where they differ, values are ids and times: not compared, but they have to be
 * equal to each other in the same places. `ignore`: paths, such as `tables.rides.note`, that are left out.
 */
export function cleanRunOf(one: History, other: History, ignore: readonly string[]): CleanRun {
  const snapshots = [snapshotOf(one), snapshotOf(other)] as const
  checkIgnored(ignore, snapshots)
  const isIgnored = ignoredPaths(ignore)
  const times: RunTimes = [beginOf(one), beginOf(other)]
  const isTableIgnored = (table: string) => isIgnored(['tables', table])
  const upTo = new Map<string, Yardstick>()
  for (const point of ['started', ...(snapshots[0].key?.points ?? [])]) {
    const [here, there] = [snapshotAt(one, point), snapshotAt(other, point)]
    if (here !== null && there !== null) {
      upTo.set(point, yardstickOf(settledPart(here), settledPart(there), isIgnored, times))
    }
  }
  return {
    snapshot: snapshots[0],
    whole: yardstickOf(jsonOf(snapshots[0]), jsonOf(snapshots[1]), isIgnored, times),
    upTo,
    changes: agreedChanges(phaseChanges(one, isTableIgnored), phaseChanges(other, isTableIgnored)),
    decisions: decisionsOf(one),
    told: new Set([...one.told, ...other.told].map(({ outcome }) => outcome.type)),
    isTableIgnored,
  }
}

/** What a run may come to that the clean one did not. */
interface Allowed {
  /** A fault has struck that only a person can resolve. */
  readonly mayBeStuck?: boolean
  /** A call was made that nobody could know of any more: there may be another effect of it. */
  readonly mayRepeat?: boolean
}

/** Where the run ended otherwise than the clean one. */
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
  // Effects under a key that was forgotten are of another time, and a provider may still know them.
  const wasForgotten = incarnations(history).length > 1 || mayRepeat
  return violationsOf(
    differencesFrom(clean.whole, jsonOf(snapshot), ([first]) => wasForgotten && first === 'provider'),
  )
}

/** A key that waits for a person has what the clean run had at the same point, and no response. */
function compareStuck(
  clean: CleanRun,
  snapshot: Snapshot,
  key: KeySnapshot,
  mayBeStuck: boolean,
): Violation[] {
  const { stuck_reason: reason, recovery_point: point } = key
  if (!mayBeStuck) {
    return [violation(`The key ended stuck at '${point}' (${reason}), and the clean run finished.`)]
  }
  const yardstick = clean.upTo.get(point)
  if (yardstick === undefined) {
    return [violation(`The key ended stuck at '${point}', where the clean run never was.`)]
  }
  return violationsOf(differencesFrom(yardstick, settledPart(snapshot)))
}

/** What is certain of a key that has not finished: a call after its last recovery point may have been made, or not. */
function settledPart({ tables, jobs, effects, key, provider }: Snapshot): JsonValue {
  const { id = null, scope = null, key: name = null, state = null, points = [] } = key ?? {}
  const settled = provider.filter(({ phase }) => phase !== null && points.includes(phase))
  return jsonOf({ tables, jobs, effects, key: { id, scope, key: name, state, points }, provider: settled })
}

function violationsOf(differences: readonly string[]): Violation[] {
  const told = differences.slice(0, MAX_DIFFERENCES).map((difference) => violation(`${difference}.`))
  const left = differences.length - told.length
  return left > 0 ? [...told, violation(`… and ${left} more differences.`)] : told
}

function violation(detail: string): Violation {
  return { rule: 'oracle', title: 'the end is that of a run without faults, but for ids and times', detail }
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

/** Rows and snapshots are JSON by their making. */
function jsonOf(snapshot: object): JsonValue {
  return snapshot as JsonValue
}
