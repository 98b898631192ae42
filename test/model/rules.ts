import { type Hold, isSameHold, type Phases, type Read, type Row } from './state.js'

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
  /** By the time the reaper comes, any time may have passed. */
  readonly mayReap: (row: Row) => boolean
  /** What a holder concludes from a COMMIT that got no answer. */
  readonly unknownCommit: 'raise the fence' | 'take it as failed' | 'take it as done'
  /** The point that the transaction after this one moves the key to. */
  readonly pointAfter: (phases: Phases, point: number) => number
  /**
   * Where a transaction declares the call that follows it, if that must not be made twice: nowhere, because it is declared by
   * a statement of its own; in its own commit; or, wrongly, only in its holder's memory.
   */
  readonly callDeclaredBy: 'its own statement' | 'the commit before it' | 'belief'
  /** What the provider does with a key that it has refused once. */
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
  // The status does not matter, because the COMMIT in doubt may have finished the key.
  mayRaise: isSameHold,
  mayGiveBack: isHeldAndRunning,
  mayMarkStuck: isHeldAndRunning,
  mayReap: (row) => row.status === 'finished',
  unknownCommit: 'raise the fence',
  pointAfter: (_phases, point) => point + 1,
  callDeclaredBy: 'its own statement',
  refusedKey: 'stays refused',
}

/** The same with `commits: 'fewest'`: a transaction goes on to the next call, which it declares, or to the end. */
export const PROTOCOL_IN_LEGS: Rules = {
  ...PROTOCOL,
  callDeclaredBy: 'the commit before it',
  pointAfter(phases, point) {
    let to = point + 1
    while (phases[to] === 'local' || phases[to] === 'finish') to++
    return to
  },
}
