import type { ReportNow } from './request-page.js'

/** Something that happened to a request, at a moment. */
export interface TimelineEvent {
  readonly id: string
  readonly at: string
  readonly kind:
    | 'reserved'
    | 'reached'
    | 'skipped'
    | 'unknown'
    | 'effect'
    | 'job'
    | 'intervention'
    | 'error'
    | 'finished'
  readonly title: string
  /** A text that others chose; null for none. */
  readonly detail: string | null
  /** Of the attempt that did it; null where none did. */
  readonly fence: number | null
  /** Since the event before that is also in the trail; null where that means nothing. */
  readonly tookMs: number | null
}

/** All that the rows of a request tell, in order. */
export function timelineOf({ key, effects, jobs, interventions }: ReportNow): TimelineEvent[] {
  const events: TimelineEvent[] = [
    {
      id: 'reserved',
      at: key.createdAt,
      kind: 'reserved',
      title: 'Reserved',
      detail: null,
      fence: null,
      tookMs: null,
    },
  ]
  let before = key.createdAt
  for (const { point, at, fence, skipped, outcomeUnknown } of key.trail) {
    events.push({
      id: `trail ${point}`,
      at,
      kind: skipped ? 'skipped' : point === 'finished' ? 'finished' : outcomeUnknown ? 'unknown' : 'reached',
      title: titleOf(point, skipped, outcomeUnknown, key.response?.status ?? null),
      detail: null,
      fence,
      tookMs: skipped ? null : Date.parse(at) - Date.parse(before),
    })
    before = at
  }
  for (const { effectId, at, effectName, reference, providerKey, fence } of effects)
    events.push({
      id: `effect ${effectId}`,
      at,
      kind: 'effect',
      title: `Effect ${effectName}`,
      detail: reference ?? providerKey,
      fence,
      tookMs: null,
    })
  for (const { jobId, name, createdAt, deadAt, lastError } of jobs) {
    events.push({ ...PLAIN, id: `job ${jobId}`, at: createdAt, kind: 'job', title: `Job ${name} staged` })
    if (deadAt !== null)
      events.push({
        ...PLAIN,
        id: `dead ${jobId}`,
        at: deadAt,
        kind: 'error',
        title: `Job ${name} given up`,
        detail: lastError,
      })
  }
  for (const [index, { at, action, actor, reason }] of interventions.entries())
    events.push({
      ...PLAIN,
      id: `intervention ${index}`,
      at,
      kind: 'intervention',
      title: `${actor}: ${action.replaceAll('_', ' ')}`,
      detail: reason,
    })
  if (key.lastError !== null && key.status !== 'finished')
    events.push({
      ...PLAIN,
      id: 'error',
      at: key.updatedAt,
      kind: 'error',
      title: failedTitle(key),
      detail: key.lastError,
      fence: key.fence,
    })
  // What was committed together stays in the order in which it is listed here.
  return events.toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
}

const PLAIN = { detail: null, fence: null, tookMs: null } as const

function titleOf(point: string, skipped: boolean, outcomeUnknown: boolean, status: number | null): string {
  if (skipped) return `Skipped ${point}`
  if (outcomeUnknown) return `Went on to ${point} without knowing the outcome of its call`
  if (point === 'finished') return status === null ? 'Finished' : `Finished, answered ${status}`
  return `Reached ${point}`
}

function failedTitle({ attempts, retries, status }: ReportNow['key']): string {
  const counts = [
    attempts > 0 ? `${attempts} failed ${attempts === 1 ? 'attempt' : 'attempts'}` : '',
    retries > 0 ? `${retries} orderly ${retries === 1 ? 'retry' : 'retries'}` : '',
  ].filter((text) => text !== '')
  const since = counts.length === 0 ? '' : `: ${counts.join(' and ')} since the last point`
  return `${status === 'stuck' ? 'Stuck' : 'Last error'}${since}`
}
