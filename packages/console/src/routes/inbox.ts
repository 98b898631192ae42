import type { BoundedCount } from '@pawl/core'
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
  const { stuckBy, jobs } = await console.live.current()
  const { keys: unattended } = await console.reader.page({
    status: 'unattended',
    olderThanMs: UNATTENDED_FOR_LONG_MS,
    limit: INBOX_KEYS + 1,
  })
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
    count: { count: Math.min(unattended.length, INBOX_KEYS), isAtLeast: unattended.length > INBOX_KEYS },
    keys: unattended.slice(0, INBOX_KEYS).map(listed),
  }
  return { groups: [...stuck, waiting].filter(({ keys }) => keys.length > 0), dead: jobs.dead }
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
