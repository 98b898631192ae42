import { ERASE_BATCH_SIZE } from '../limits.js'
import { eraseJobs } from '../storage/jobs/erase-jobs.js'
import { findJobsToErase, type JobToErase } from '../storage/jobs/find-jobs-to-erase.js'
import { type ErasureParts, FIRST_ID } from './erasure-parts.js'
import type { KeptBecause } from './erasure.js'
import { inHalves } from './in-halves.js'

/** Deletes the jobs of a scope: dead ones, and on request those that nobody is delivering. Returns how many. */
export async function eraseJobsOf(parts: ErasureParts): Promise<number> {
  const { batch, of, erasure, keyIds, kept } = parts
  const { undeliveredJobs, dryRun } = erasure
  const which = { scope: of.scope, keyIds, beganMs: of.beganMs }
  const keep = ({ id, name }: JobToErase, why: KeptBecause): void =>
    kept.add({ what: 'job', id, name, why, until: null })
  let erased = 0
  let after: Pick<JobToErase, 'keyId' | 'seq'> = { keyId: FIRST_ID, seq: 0 }
  for (;;) {
    const from = after
    const page = await batch((store) => findJobsToErase(store, which, from, ERASE_BATCH_SIZE))
    const wanted = page.filter(({ isDead }) => isDead || undeliveredJobs)
    for (const job of page) if (!wanted.includes(job)) keep(job, 'undelivered')
    if (dryRun) erased += wanted.length
    else {
      const act = async (jobs: readonly JobToErase[]): Promise<void> => {
        const gone = new Set(await batch((store) => eraseJobs(store, of.scope, jobs, undeliveredJobs)))
        erased += gone.size
        for (const job of jobs) if (!gone.has(job.id)) keep(job, 'locked')
      }
      await inHalves(wanted, kept, act, keep)
    }
    const last = page.at(-1)
    if (last === undefined || page.length < ERASE_BATCH_SIZE) return erased
    after = last
  }
}
