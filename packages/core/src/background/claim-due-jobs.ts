import { JOBS_READ_PER_LOOK, SCOPE_PAGES_PER_LOOK } from '../limits.js'
import { type Claim, type Claimed, claimJobs, scopesOf } from '../storage/jobs/claim-jobs.js'
import { claimTheseJobs } from '../storage/jobs/claim-these-jobs.js'
import type { ClaimedJob } from '../storage/jobs/claiming.js'
import { findDueByScope } from '../storage/jobs/find-due-by-scope.js'
import { type DueJob, findDueJobs } from '../storage/jobs/find-due-jobs.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'
import type { ScopePass } from './scope-pass.js'
import { groupByScope } from './turn-queue.js'

/**
 * Claims jobs that are due. Where one scope has so many that those of others are not among the oldest, it goes on from scope to scope.
 * Over servers, nobody can lock rows of several: jobs are found first, and claimed shard by shard.
 */
export async function claimDueJobs(store: Store, claim: Claim, pass: ScopePass<DueJob>): Promise<Claimed> {
  if (store.tables.spread.overServers) return claimOverServers(store, claim)
  const claimed = await claimJobs(store, claim)
  if (claimed.sawAll || claimed.isAlone) return claimed
  const rest = ofOtherScopes(claim, claimed.jobs)
  if (rest.places <= 0) return claimed
  const further = await claimByScope(store, rest, pass, claimed.jobs.length === 0)
  const isRestUnderWay = further.sawAll && further.jobs.length === 0
  return { ...further, isRestUnderWay, jobs: [...claimed.jobs, ...further.jobs] }
}

/** `mayBeAlone`: nothing else was claimed. */
async function claimByScope(
  store: Store,
  claim: Claim,
  pass: ScopePass<DueJob>,
  mayBeAlone: boolean,
): Promise<Claimed> {
  const found: DueJob[] = []
  const without = new Set(claim.without)
  const isExcluded = (scope: string): boolean => without.has(scope)
  const countScopes = (): number => scopesOf(found.filter(({ scope }) => !isExcluded(scope))).size
  let isFromFirst = pass.isAtFirst
  let sawAll = false
  for (let page = 0; page < SCOPE_PAGES_PER_LOOK && !sawAll; page++) {
    const next = await pass.next((after) => findDueByScope(store, claim, after), isExcluded)
    found.push(...next.due)
    if (countScopes() > claim.places) break
    if (!next.isOver) continue
    sawAll = isFromFirst
    // What it has is enough for now, and where it began in the middle, there may be more before that.
    if (countScopes() > 0) break
    isFromFirst = true
  }
  const { jobs, isAlone } = choose(found, { ...claim, mayBeAlone: claim.mayBeAlone && mayBeAlone })
  const claimed = jobs.length === 0 ? [] : await claimTheseJobs(store, jobs, claim)
  const areLeftOut = !sawAll || countScopes() > scopesOf(claimed).size
  return { jobs: claimed, isAlone, isRestUnderWay: false, sawAll, areLeftOut }
}

async function claimOverServers(store: Store, claim: Claim): Promise<Claimed> {
  const due = await findDueJobs(store, claim)
  const { jobs, isAlone } = choose(due, claim)
  const claimed = await forEachShard(store, jobs, (some) => claimTheseJobs(store, some, claim))
  const inOrder = claimed.toSorted((a, b) => a.createdMs - b.createdMs)
  const sawAll = due.length < JOBS_READ_PER_LOOK
  const able = due.filter(({ scope }) => !claim.without.includes(scope))
  const areLeftOut = !sawAll || scopesOf(able).size > scopesOf(claimed).size
  return { jobs: inOrder, isAlone, isRestUnderWay: false, sawAll, areLeftOut }
}

/** As many again, of scopes that nothing has been claimed of. */
function ofOtherScopes(claim: Claim, jobs: readonly ClaimedJob[]): Claim {
  const had = scopesOf(jobs)
  const [places, scopes] = [claim.places - had.size, claim.scopes - had.size]
  return { ...claim, places, scopes, without: [...claim.without, ...had] }
}

/** The scopes take turns. A suspect job is claimed alone, when its turn has come. */
function choose(
  due: readonly DueJob[],
  { without, places, scopes, limit, last, mayBeAlone }: Claim,
): { readonly jobs: readonly DueJob[]; readonly isAlone: boolean } {
  const able = due.filter(({ scope, isSuspect }) => !without.includes(scope) && (mayBeAlone || !isSuspect))
  const ofScopes = [...groupByScope(able)].toSorted(([a], [b]) => Number(a === last) - Number(b === last))
  const first = ofScopes[0]?.[1][0]
  if (first?.isSuspect === true) return { jobs: [first], isAlone: true }
  const lists = ofScopes.map(([, jobs]) => jobs.filter(({ isSuspect }) => !isSuspect))
  const inTurns = firstOf(lists, { places, scopes, limit })
    .flatMap((jobs) => jobs.map((job, turn) => ({ job, turn })))
    .toSorted((a, b) => a.turn - b.turn)
  return { jobs: inTurns.slice(0, limit).map(({ job }) => job), isAlone: false }
}

/** As many lists as are needed to fill all places, and then the batch. */
function firstOf(
  lists: readonly (readonly DueJob[])[],
  { places, scopes, limit }: Pick<Claim, 'places' | 'scopes' | 'limit'>,
): readonly (readonly DueJob[])[] {
  let jobs = 0
  return lists.slice(0, scopes).filter(({ length }, nth) => {
    const isNeeded = nth < places || jobs < limit
    jobs += length
    return isNeeded
  })
}
