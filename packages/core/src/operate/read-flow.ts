import {
  COUNT_LIMIT,
  DEFAULT_RETENTION_MS,
  FLOW_GROUPS,
  FLOW_RETENTIONS,
  FLOW_SAMPLE,
  FLOW_WINDOW_MS,
  RECORDED_PIPELINES,
} from '../limits.js'
import type { RecordedPipeline } from '../pipeline/recorded-pipeline.js'
import { countRows } from '../storage/keys/count-rows.js'
import { findFinishedLately } from '../storage/keys/find-finished-lately.js'
import { findOverdue } from '../storage/keys/find-overdue.js'
import { type FlowRow, groupFlow } from '../storage/keys/group-flow.js'
import { groupStuck } from '../storage/keys/group-stuck.js'
import { findPipelines } from '../storage/pipelines/find-pipelines.js'
import type { Store } from '../storage/statement.js'
import type { Flow, PipelineFlow, PointFlow } from './flow.js'
import { measureRates, type VersionRates, versionName } from './measure-rates.js'
import { viewPipeline } from './view-pipeline.js'
import { bounded } from './views.js'

/** Where requests stand, and how fast they move. Six statements, and one more for each further time that keys are kept. */
export async function readFlow(store: Store): Promise<Flow> {
  const rows = await countRows(store)
  const recorded = await readPipelines(store)
  const groups = await groupFlow(store, FLOW_GROUPS)
  const overdue = await findOverdue(store, 0)
  const stuckBy = await groupStuck(store)
  const latest = latestOfEach(recorded)
  const rates = await readRates(store, retentions(latest, groups), rows.nowMs)
  const groupsOf = byName(groups)
  return {
    at: new Date(rows.nowMs),
    pipelines: versionsOf(latest, groups).map((name) =>
      flowOf(name, latest.get(name) ?? null, groupsOf.get(name) ?? [], rates.get(name) ?? null),
    ),
    isPartial: isPartial(groups),
    stuckBy,
    finished: bounded(rows.finished),
    expired: bounded(rows.expired),
    oldestUnattended:
      overdue === null ? null : { scope: overdue.scope, key: overdue.key, sinceMs: overdue.sinceMs },
    jobs: { waiting: bounded(rows.waiting), dead: bounded(rows.dead), oldestDueMs: rows.oldestDueMs },
  }
}

/** What engines have recorded and this version of Pawl can read. */
export async function readPipelines(store: Store): Promise<RecordedPipeline[]> {
  const rows = await findPipelines(store, RECORDED_PIPELINES)
  return rows.map(viewPipeline).filter((each) => each !== null)
}

/** Whether there are more unfinished keys, or groups of them, than are counted. */
export function isPartial(groups: readonly FlowRow[]): boolean {
  const running = groups.reduce(
    (sum, { held, backingOff, unattended }) => sum + held + backingOff + unattended,
    0,
  )
  const stuck = groups.reduce((sum, group) => sum + group.stuck, 0)
  return running >= COUNT_LIMIT || stuck >= COUNT_LIMIT || groups.length >= FLOW_GROUPS
}

/** The definition that was recorded last, of each version: a changed one may be on its way in. */
function latestOfEach(recorded: readonly RecordedPipeline[]): ReadonlyMap<string, RecordedPipeline> {
  const oldestFirst = recorded.toSorted((a, b) => a.recordedAt.getTime() - b.recordedAt.getTime())
  return new Map(
    oldestFirst.map((each) => [versionName({ pipeline: each.name, version: each.version }), each]),
  )
}

function byName(groups: readonly FlowRow[]): ReadonlyMap<string, readonly FlowRow[]> {
  const found = new Map<string, FlowRow[]>()
  for (const group of groups) {
    const name = versionName(group)
    const known = found.get(name)
    if (known === undefined) found.set(name, [group])
    else known.push(group)
  }
  return found
}

/** Every version that is recorded or has unfinished keys, by name and number. */
function versionsOf(latest: ReadonlyMap<string, RecordedPipeline>, groups: readonly FlowRow[]): string[] {
  return [...new Set([...latest.keys(), ...groups.map(versionName)])].toSorted(byVersion)
}

function byVersion(a: string, b: string): number {
  const [nameA, versionA] = parts(a)
  const [nameB, versionB] = parts(b)
  return nameA === nameB ? versionA - versionB : nameA < nameB ? -1 : 1
}

function parts(name: string): readonly [string, number] {
  const at = name.lastIndexOf('@')
  return [name.slice(0, at), Number(name.slice(at + 1))]
}

/** The versions by how long their finished keys are kept: those that nobody has recorded are taken to have the default. */
function retentions(
  latest: ReadonlyMap<string, RecordedPipeline>,
  groups: readonly FlowRow[],
): ReadonlyMap<number, ReadonlySet<string>> {
  const found = new Map<number, Set<string>>()
  for (const name of versionsOf(latest, groups)) {
    const retentionMs = latest.get(name)?.retentionMs ?? DEFAULT_RETENTION_MS
    found.set(retentionMs, (found.get(retentionMs) ?? new Set()).add(name))
  }
  return found
}

async function readRates(
  store: Store,
  versionsBy: ReadonlyMap<number, ReadonlySet<string>>,
  nowMs: number,
): Promise<ReadonlyMap<string, VersionRates>> {
  const most = [...versionsBy].toSorted(([, a], [, b]) => b.size - a.size).slice(0, FLOW_RETENTIONS)
  const limit = Math.ceil(FLOW_SAMPLE / Math.max(1, most.length))
  const rates = new Map<string, VersionRates>()
  for (const [retentionMs, versions] of most) {
    const pipelines = [...new Set([...versions].map((name) => parts(name)[0]))]
    const finished = await findFinishedLately(store, pipelines, retentionMs, FLOW_WINDOW_MS, limit)
    // If there were more than are read, what was read covers less of the time.
    const oldestMs = finished.at(-1)?.trail.at(-1)?.atMs ?? 0
    const from = nowMs - FLOW_WINDOW_MS
    const sinceMs = finished.length < limit ? from : Math.max(from, oldestMs)
    const ofThese = finished.filter((key) => versions.has(versionName(key)))
    for (const [name, each] of measureRates(ofThese, sinceMs, nowMs)) rates.set(name, each)
  }
  return rates
}

function flowOf(
  name: string,
  recorded: RecordedPipeline | null,
  groups: readonly FlowRow[],
  rates: VersionRates | null,
): PipelineFlow {
  const [pipeline, version] = parts(name)
  const known = recorded === null ? ['started'] : ['started', ...recorded.phases.map((phase) => phase.name)]
  const others = groups.map(({ recoveryPoint }) => recoveryPoint).filter((point) => !known.includes(point))
  const points = new Set(recorded === null ? [...known, ...others, 'finished'] : [...known, ...others])
  return {
    name: pipeline,
    version,
    recorded,
    points: [...points].map((point) =>
      pointOf(
        point,
        groups.find((group) => group.recoveryPoint === point),
        rates,
      ),
    ),
    finishedPerMinute: rates?.finishedPerMinute ?? 0,
  }
}

function pointOf(point: string, group: FlowRow | undefined, rates: VersionRates | null): PointFlow {
  const { held = 0, backingOff = 0, unattended = 0, stuck = 0 } = group ?? {}
  const { reachedPerMinute = 0, medianMs = null } = rates?.points.get(point) ?? {}
  return {
    point,
    held,
    backingOff,
    unattended,
    stuck,
    reachedPerMinute,
    medianMs,
    oldestCreatedAt: group === undefined ? null : new Date(group.oldestCreatedMs),
  }
}
