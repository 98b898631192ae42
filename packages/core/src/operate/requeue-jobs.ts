import { forEachShard } from '../background/for-each-shard.js'
import { REQUEUE_BATCH_SIZE } from '../limits.js'
import { type DeadJobFilter, findDeadJobNames } from '../storage/jobs/find-dead-job-names.js'
import { readClock } from '../storage/schema/read-clock.js'
import { requeueDeadJobs } from '../storage/jobs/requeue-dead-jobs.js'
import { requeueNamedJobs } from '../storage/jobs/requeue-named-jobs.js'
import { requeueTheseJobs } from '../storage/jobs/requeue-these-jobs.js'
import type { Requeueing } from '../storage/jobs/requeueing.js'
import type { Store } from '../storage/statement.js'
import type { Because } from '../because.js'
import type { DeadJobs } from './operator.js'
import type { OperatorContext } from './operator-context.js'

/** Has dead jobs delivered again, batch by batch, so that no lock lasts longer than a batch. Returns how many. */
export async function requeueJobs(
  context: OperatorContext,
  jobs: DeadJobs,
  because: Because,
): Promise<number> {
  if ('jobIds' in jobs) return requeueThese(context, jobs.jobIds, because)
  const name = 'name' in jobs ? jobs.name : null
  const by = { ...because, givenJson: JSON.stringify(jobs) }
  // Jobs that die again in the meantime are left out, or this would never end.
  const deadByMs = await context.with(readClock)
  for (let requeued = 0; ;) {
    const which = { deadByMs, name, limit: REQUEUE_BATCH_SIZE }
    const batch = await context.with((store) =>
      isDistributed(store)
        ? requeueOverServers(store, by, { ...which, ids: null })
        : requeueDeadJobs(store, by, which),
    )
    requeued += batch
    if (batch < REQUEUE_BATCH_SIZE) return requeued
  }
}

const isDistributed = ({ tables }: Store): boolean => tables.spread.overServers

async function requeueOverServers(store: Store, by: Requeueing, filter: DeadJobFilter): Promise<number> {
  const dead = await findDeadJobNames(store, filter)
  const ids = await forEachShard(store, dead, (jobs) => requeueNamedJobs(store, jobs, by))
  return ids.length
}

async function requeueThese(
  context: OperatorContext,
  jobIds: readonly string[],
  because: Because,
): Promise<number> {
  const by = { ...because, givenJson: JSON.stringify({ by: 'id' }) }
  let requeued = 0
  for (let start = 0; start < jobIds.length; start += REQUEUE_BATCH_SIZE) {
    const batch = jobIds.slice(start, start + REQUEUE_BATCH_SIZE)
    requeued += await context.with((store) =>
      isDistributed(store)
        ? requeueOverServers(store, by, { deadByMs: null, name: null, ids: batch, limit: batch.length })
        : requeueTheseJobs(store, by, batch),
    )
  }
  return requeued
}
