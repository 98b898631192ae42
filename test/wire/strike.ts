import type { Decide, Verdict } from './protocol-proxy.js'
import type { WireMessage } from './wire-message.js'

/** A place between two messages of a run: before this one. */
export interface Boundary {
  readonly connection: number
  readonly from: 'client' | 'server'
  readonly nth: number
  readonly type: string
}

/** What can happen at a boundary. */
export const FAULTS = [
  /** Both sides see an orderly end before the message: what came before it has arrived. */
  'cut_before',
  /** The client sees a reset after the message, and the server's side stays open until the server itself ends it. */
  'client_lost_after',
  /** The server learns after the message that its client has gone, and the client waits for an answer in vain. */
  'server_cut_after',
  /** The message arrives, but the server's answer does not. */
  'answer_lost',
  /** The message is held until somebody else has taken the key over and finished it, and then passes. */
  'held',
] as const
export type Fault = (typeof FAULTS)[number]

/** Whether a fault makes a difference to a message of this side. */
export function isPossible(fault: Fault, { from }: Boundary): boolean {
  return from === 'client' || (fault !== 'answer_lost' && fault !== 'server_cut_after')
}

export function boundaryOf({ connection, from, nth, type }: WireMessage): Boundary {
  return { connection, from, nth, type }
}

export function nameOf({ connection, from, nth, type }: Boundary): string {
  return `${from} ${connection}.${nth} ${type}`
}

/** `letGo` lets a held message go. */
function verdictOf(fault: Fault, letGo: Promise<unknown>): Verdict {
  switch (fault) {
    case 'cut_before':
      return { cut: 'both', when: 'before' }
    case 'client_lost_after':
      return { cut: 'client', when: 'after', reset: true }
    case 'server_cut_after':
      return { cut: 'server', when: 'after' }
    case 'answer_lost':
      return 'lose_answer'
    case 'held':
      return { hold: letGo }
  }
}

/** Strikes once, at one boundary. */
export function strikeAt(
  boundary: Boundary,
  fault: Fault,
  onStruck: () => void,
  letGo: Promise<unknown>,
): Decide {
  let struck = false
  return ({ connection, from, nth }) => {
    if (struck || connection !== boundary.connection || from !== boundary.from || nth !== boundary.nth)
      return 'pass'
    struck = true
    onStruck()
    return verdictOf(fault, letGo)
  }
}
