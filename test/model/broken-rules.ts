import { PROTOCOL, type Rules } from './rules.js'

/** Protocols with one thing wrong in each, as somebody might write them. */
const broken = (change: Partial<Rules>): Rules => ({ ...PROTOCOL, ...change })

export const takeOverByFenceAlone = broken({
  mayTakeOver: (row, read) => row.id === read.id && row.fence === read.fence,
})

/** Checks fence, status and lease, but not whether the row was written since it was read. */
export const takeOverOfChangedRow = broken({
  mayTakeOver: (row, read) =>
    row.id === read.id && row.fence === read.fence && row.status === 'running' && row.lease !== 'live',
})

export const unfencedGiveBack = broken({
  mayGiveBack: (row, hold) => row.id === hold.id && row.status === 'running',
})

export const unfencedRaise = broken({ mayRaise: (row, hold) => row.id === hold.id })

export const unfencedAdvance = broken({
  mayAdvance: (row, hold, from) => row.id === hold.id && row.status === 'running' && row.point === from,
})

export const unfencedDeclare = broken({
  mayDeclare: (row, hold) => row.id === hold.id && row.status === 'running',
})

export const unfencedRenewal = broken({
  mayRenew: (row, hold) => row.id === hold.id && row.status === 'running',
})

/** By the time the reaper comes, the retention of any row may have passed. */
export const reaperByTimeOnly = broken({ mayReap: () => true })

export const unknownCommitAsFailure = broken({ unknownCommit: 'take it as failed' })
export const unknownCommitAsSuccess = broken({ unknownCommit: 'take it as done' })

/** The holder believes that its commit has declared the call, and it has not. */
export const declaredInMemoryOnly = broken({ callDeclaredBy: 'belief' })

/** Here the provider is wrong, not the protocol: its `notExecuted` holds for one attempt only. */
export const forgetfulRefusal = broken({ refusedKey: 'may be executed' })

/** Safe but useless: nobody ever goes on with what somebody else has left. */
export const noTakeOver = broken({ mayTakeOver: () => false })
