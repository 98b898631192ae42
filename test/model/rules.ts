import { type Hold, isSameHold, type Read, type Row } from './state.js'

/**
 * The condition of each statement, as in its WHERE, and what follows an unknown COMMIT. The broken protocols of the
 * tests differ from the right one here, and nowhere else.
 */
export interface Rules {
  readonly mayTakeOver: (row: Row, read: Read) => boolean
  readonly mayAdvance: (row: Row, hold: Hold, from: number) => boolean
  readonly mayDeclare: (row: Row, hold: Hold) => boolean
  readonly mayRenew: (row: Row, hold: Hold) => boolean
  readonly mayRaise: (row: Row, hold: Hold) => boolean
  readonly mayGiveBack: (row: Row, hold: Hold) => boolean
  readonly mayMarkStuck: (row: Row, hold: Hold) => boolean
  /** By the time it comes, any time may have passed. */
  readonly mayReap: (row: Row) => boolean
  /** What a holder makes of a COMMIT that got no answer. */
  readonly unknownCommit: 'raise the fence' | 'take it as failed' | 'take it as done'
  /** What the provider makes of a key that it has refused once. */
  readonly refusedKey: 'stays refused' | 'may be executed'
}

const isHeldAndRunning = (row: Row, hold: Hold): boolean => isSameHold(row, hold) && row.status === 'running'

/** The protocol as it is. */
export const PROTOCOL: Rules = {
  mayTakeOver: (row, read) =>
    row.id === read.id &&
    row.fence === read.fence &&
    !read.changed &&
    row.status === 'running' &&
    row.lease !== 'live',
  mayAdvance: (row, hold, from) => isHeldAndRunning(row, hold) && row.point === from,
  mayDeclare: isHeldAndRunning,
  mayRenew: isHeldAndRunning,
  // Whatever the status: the COMMIT in doubt may have finished the key.
  mayRaise: isSameHold,
  mayGiveBack: isHeldAndRunning,
  mayMarkStuck: isHeldAndRunning,
  mayReap: (row) => row.status === 'finished',
  unknownCommit: 'raise the fence',
  refusedKey: 'stays refused',
}
