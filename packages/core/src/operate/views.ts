import { COUNT_LIMIT } from '../limits.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { EffectRow } from '../storage/effects/effect-row.js'
import type { JobRow } from '../storage/jobs/job-row.js'
import type { GroupRow } from '../storage/keys/group-unfinished.js'
import type { BoundedCount, EffectView, JobView, UnfinishedGroup } from './operator.js'

export function viewEffect(row: EffectRow): EffectView {
  const {
    id: effectId,
    keyId,
    scope,
    key,
    pipeline,
    version,
    phase,
    effectName,
    providerKey,
    reference,
    fence,
  } = row
  const names = { scope, key, pipeline, version, phase, effectName, providerKey, reference }
  const undoneAt = row.undoneMs === null ? null : new Date(row.undoneMs)
  return { effectId, keyId, ...names, fence, at: new Date(row.createdMs), undoneAt }
}

export function viewJob(row: JobRow): JobView {
  return {
    jobId: row.id,
    name: row.name,
    keyId: row.keyId,
    payload: JSON.parse(row.payloadJson) as JsonValue,
    attempts: row.attempts,
    runAfter: new Date(row.runAfterMs),
    lastError: row.lastError,
    sealed: row.sealed?.message ?? null,
    createdAt: new Date(row.createdMs),
    deadAt: row.deadMs === null ? null : new Date(row.deadMs),
  }
}

export function viewGroup({ counts, oldestCreatedMs, ...row }: GroupRow): UnfinishedGroup {
  const { backing_off: backingOff, ...others } = counts
  return { ...row, ...others, backingOff, oldestCreatedAt: new Date(oldestCreatedMs) }
}

/** Takes a count that was limited to one above the bound, or to the bound itself. */
export function bounded(count: number): BoundedCount {
  return { count: Math.min(count, COUNT_LIMIT), isAtLeast: count >= COUNT_LIMIT }
}
