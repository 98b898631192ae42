import type { BoundedCount, KeySummary } from '@pawl/core'
import type { FastifyRequest } from 'fastify'
import type { DeadJobList, Inbox } from '../api.js'
import type { ConsoleContext } from '../console-context.js'
import { INBOX_KEYS, MAX_PAGE_ROWS, UNATTENDED_FOR_LONG_MS } from '../limits.js'
import { readQuery } from '../parse-query.js'
import { listed, shownJob } from '../views/shown-key.js'
import { defined, STUCK_REASONS } from './requests.js'

/** What needs a person, by reason. */
export async function inbox(console: ConsoleContext, request: FastifyRequest): Promise<Inbox> {
  readQuery(request.query, [])
  const { at, stuckBy, jobs } = await console.live.current()
  const { keys: unattended, next } = await console.reader.page({
    status: 'unattended',
    olderThanMs: UNATTENDED_FOR_LONG_MS,
    limit: MAX_PAGE_ROWS,
  })
  const waitingLong = unattended.filter(
    (key) => isForACompleter(key) && at.getTime() - dueSince(key) > UNATTENDED_FOR_LONG_MS,
  )
  const stuck = await Promise.all(
    STUCK_REASONS.map(async (reason) => {
      // Counted a moment ago: the list is what stands there now.
      const counted = stuckBy.find((each) => each.reason === reason)?.count ?? 0
      const { keys } = await console.reader.page({
        status: 'stuck',
        stuckReason: reason,
        limit: INBOX_KEYS + 1,
      })
      return { reason, count: atLeast(keys.length, counted), keys: keys.slice(0, INBOX_KEYS).map(listed) }
    }),
  )
  const waiting = {
    reason: 'unattended_for_long' as const,
    count: { count: waitingLong.length, isAtLeast: next !== null },
    keys: waitingLong.slice(0, INBOX_KEYS).map(listed),
  }
  return { groups: [...stuck, waiting].filter(({ keys }) => keys.length > 0), dead: jobs.dead }
}

/** Those of atomic handlers wait for their client. */
const isForACompleter = ({ kind }: KeySummary): boolean => kind === 'pipeline'

/** When it was written, its lease ended, or its back-off was over, whichever came last: age alone says nothing of a key that is retried. */
function dueSince({ updatedAt, lease, runAfter }: KeySummary): number {
  return Math.max(updatedAt.getTime(), lease?.until.getTime() ?? 0, runAfter?.getTime() ?? 0)
}

/** As many as were found here and now; where there are more, as many as were counted. */
function atLeast(found: number, counted: number): BoundedCount {
  if (found <= INBOX_KEYS) return { count: found, isAtLeast: false }
  return { count: Math.max(found, counted), isAtLeast: counted < found }
}

/** Jobs that were given up. */
export async function deadJobs(console: ConsoleContext, request: FastifyRequest): Promise<DeadJobList> {
  const { name } = readQuery(request.query, ['name'])
  const jobs = await console.reader.deadJobs({ limit: MAX_PAGE_ROWS + 1, ...defined({ name }) })
  return {
    jobs: jobs.slice(0, MAX_PAGE_ROWS).map((job) => shownJob(job, false)),
    isPartial: jobs.length > MAX_PAGE_ROWS,
  }
}
