import { REQUEUE_BATCH_SIZE } from '../limits.js'
import { readClock } from '../storage/schema/read-clock.js'
import { requeueDeadJobs } from '../storage/jobs/requeue-dead-jobs.js'
import { requeueTheseJobs } from '../storage/jobs/requeue-these-jobs.js'
import type { Because, DeadJobs } from './operator.js'
import type { Workplace } from './workplace.js'

/** Delivers dead jobs again, batch by batch, so that no lock lasts longer than one. Gives how many. */
export async function requeueJobs(place: Workplace, jobs: DeadJobs, because: Because): Promise<number> {
  if ('jobIds' in jobs) return requeueThese(place, jobs.jobIds, because)
  const name = 'name' in jobs ? jobs.name : null
  const by = { ...because, givenJson: JSON.stringify(jobs) }
  // Not those that die again while this goes on: it would have no end.
  const deadByMs = await place.with(readClock)
  for (let requeued = 0; ;) {
    const which = { deadByMs, name, limit: REQUEUE_BATCH_SIZE }
    const batch = await place.with((store) => requeueDeadJobs(store, by, which))
    requeued += batch
    if (batch < REQUEUE_BATCH_SIZE) return requeued
  }
}

async function requeueThese(place: Workplace, jobIds: readonly string[], because: Because): Promise<number> {
  const by = { ...because, givenJson: JSON.stringify({ by: 'id' }) }
  let requeued = 0
  for (let start = 0; start < jobIds.length; start += REQUEUE_BATCH_SIZE) {
    const batch = jobIds.slice(start, start + REQUEUE_BATCH_SIZE)
    requeued += await place.with((store) => requeueTheseJobs(store, by, batch))
  }
  return requeued
}
