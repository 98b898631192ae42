import { COUNT_LIMIT, OVERDUE_MS } from '../limits.js'
import type { Registry } from '../pipeline/registry.js'
import type { StuckReason } from '../pipeline/outcome.js'
import type { VersionInFlight } from '../storage/keys/find-versions.js'
import { counted, failing, ok, orOk, roughly, warning } from './finding.js'
import type { Finding } from './operator.js'

/** Whether the given pipelines can run everything that is in flight; without any, reports what is in flight. */
export function judgeVersions(inFlight: readonly VersionInFlight[], registry: Registry | null): Finding[] {
  if (registry === null) {
    const list = inFlight.map((each) => `${nameOf(each)}: ${each.count}`).join(', ')
    return [ok('versions', list === '' ? 'Nothing is in flight.' : `In flight: ${list}.`)]
  }
  const wrong = inFlight.map((each) => {
    const resolution = registry.resolve(each)
    if (resolution.type !== 'unknown') return null
    return failing(
      'versions',
      `${many(each.count, 'unfinished key')} of ${nameOf(each)} cannot be run by any of the given pipelines: ${resolution.detail}.`,
      `Register that version beside the new one, or declare upgradesFrom: [{ version: ${each.version} }].`,
    )
  })
  return orOk(wrong, ok('versions', 'The given pipelines can run everything that is in flight.'))
}

export function judgeUnattended(
  overdue: { readonly count: number; readonly sinceMs: number } | null,
): Finding {
  if (overdue === null) return ok('unattended', `No key has been due for ${roughly(OVERDUE_MS)}.`)
  const { count, sinceMs } = overdue
  const due =
    count === 1
      ? `1 key has been due for ${roughly(sinceMs)}`
      : `${many(count, 'key')} have been due for more than ${roughly(OVERDUE_MS)}, one of them for ${roughly(sinceMs)}`
  return warning(
    'unattended',
    `${due}: no completer seems to be running.`,
    'Start createBackground({ engine }) in a process that registers their pipelines.',
  )
}

export function judgeJobs(jobs: {
  readonly waiting: number
  readonly dead: number
  readonly oldestDueMs: number | null
}): Finding[] {
  const { waiting, dead, oldestDueMs } = jobs
  return orOk(
    [
      oldestDueMs !== null && oldestDueMs > OVERDUE_MS
        ? warning(
            'jobs',
            `${waitingText(waiting)}, ${waiting === 1 ? '' : 'one of them '}due for ${roughly(oldestDueMs)}: no relay seems to be running, or its queue is not available.`,
            'Start createBackground({ engine, relay: { sink } }) in a process.',
          )
        : null,
      dead === 0
        ? null
        : warning(
            'jobs',
            `Staged jobs that were given up: ${upTo(dead)}.`,
            'Look at their last error (deadJobs), fix its cause, and requeue them.',
          ),
    ],
    ok(
      'jobs',
      waiting === 0
        ? 'No job is waiting, and none was given up.'
        : `${waitingText(waiting)}, but not for long, and none was given up.`,
    ),
  )
}

function waitingText(waiting: number): string {
  return `${many(waiting, 'job')} ${waiting === 1 ? 'is' : 'are'} waiting`
}

export function judgeStuck(
  stuckBy: readonly { readonly reason: StuckReason; readonly count: number }[],
): Finding {
  if (stuckBy.length === 0) return ok('stuck', 'No key is stuck.')
  const list = stuckBy.map(({ reason, count }) => `${reason} ${upTo(count)}`).join(', ')
  return warning(
    'stuck',
    `Stuck: ${list}.`,
    `Look at each (list({ status: 'stuck' })), and unstick or answer it.`,
  )
}

function many(count: number, what: string): string {
  return count >= COUNT_LIMIT ? `${upTo(count)} ${what}s` : counted(count, what)
}

/** Says so where the counting stopped. */
function upTo(count: number): string {
  return count >= COUNT_LIMIT ? `${COUNT_LIMIT} or more` : String(count)
}

function nameOf({ pipeline, version, definitionHash }: VersionInFlight): string {
  return `'${pipeline}' version ${version} (${definitionHash})`
}
