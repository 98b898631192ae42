import { PROTOCOL, type Rules } from './rules.js'

/** The protocol with one thing wrong, each as somebody might write it. */
const broken = (change: Partial<Rules>): Rules => ({ ...PROTOCOL, ...change })

export const takeOverByFenceAlone = broken({
  mayTakeOver: (row, read) => row.id === read.id && row.fence === read.fence,
})

/** Fence, status and lease are looked at, but not whether the row was written since it was read. */
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

/** By the time it comes, the retention of any row may have passed. */
export const reaperByTimeOnly = broken({ mayReap: () => true })

export const unknownCommitAsFailure = broken({ unknownCommit: 'take it as failed' })
export const unknownCommitAsSuccess = broken({ unknownCommit: 'take it as done' })

/** Not the protocol but the provider: `notExecuted` is its word for one attempt only. */
export const forgetfulRefusal = broken({ refusedKey: 'may be executed' })

/** Safe, and of no use: nobody ever goes on with what another left. */
export const noTakeOver = broken({ mayTakeOver: () => false })
