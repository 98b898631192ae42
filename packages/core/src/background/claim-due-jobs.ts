import { type Claim, claimJobs } from '../storage/jobs/claim-jobs.js'
import { claimTheseJobs } from '../storage/jobs/claim-these-jobs.js'
import type { ClaimedJob } from '../storage/jobs/claiming.js'
import { type DueJob, findDueJobs } from '../storage/jobs/find-due-jobs.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'

/** Claims jobs that are due. Over servers, nobody can lock rows of several: they are found first, and claimed shard by shard. */
export async function claimDueJobs(store: Store, claim: Claim): Promise<ClaimedJob[]> {
  if (!store.tables.spread.overServers) return claimJobs(store, claim)
  const chosen = choose(await findDueJobs(store, claim))
  const claimed = await forEachShard(store, chosen, (jobs) => claimTheseJobs(store, jobs, claim))
  return claimed.toSorted((a, b) => a.createdMs - b.createdMs)
}

/** A suspect job is claimed alone, when its turn has come. */
function choose(due: readonly DueJob[]): readonly DueJob[] {
  const [first] = due
  return first?.isSuspect === true ? [first] : due.filter(({ isSuspect }) => !isSuspect)
}
