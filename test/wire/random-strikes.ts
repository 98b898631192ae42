import { setTimeout as pause } from 'node:timers/promises'
import type { Decide, Verdict } from './protocol-proxy.js'
import type { RandomNumbers } from './random-numbers.js'
import type { WireMessage } from './wire-message.js'
import { LEASE_MS } from './wire-trial.js'

/** What strikes at messages, each with its weight. */
const WEIGHTS = {
  /** An orderly end before the message: what came before it has arrived. */
  cut_before: 6,
  /** An orderly end after the message, which has arrived as well. */
  cut_after: 4,
  /** The client sees a reset, perhaps before it has read what was sent to it. */
  reset: 4,
  /** The client has gone, and the server does not know it. */
  client_lost: 4,
  /** The server has executed it, and nobody learns of that. */
  answer_lost: 6,
  /** The message is held for less than a lease. */
  delayed: 3,
  /** The message is held for longer than a lease, which makes its sender a zombie. */
  held: 2,
  /** The client waits for an answer in vain until its own deadline, which is seconds for a connection of the pool. */
  server_cut: 0.2,
} as const
export type Strike = keyof typeof WEIGHTS

const STRIKES = Object.entries(WEIGHTS) as [Strike, number][]
const ALL = STRIKES.reduce((sum, [, weight]) => sum + weight, 0)

/** Longest time that a message is held for, in leases. */
const HELD_LEASES = 2

/** Strikes at one message in `oneIn`. */
export function randomStrikes(
  random: RandomNumbers,
  oneIn: number,
  onStruck: (strike: Strike) => void,
): Decide {
  return (message) => {
    if (!random.oneIn(oneIn)) return 'pass'
    const strike = choose(random)
    const verdict = verdictOf(strike, message, random)
    if (verdict !== 'pass') onStruck(strike)
    return verdict
  }
}

function choose(random: RandomNumbers): Strike {
  let left = random.next() * ALL
  return STRIKES.find(([, weight]) => (left -= weight) < 0)?.[0] ?? 'cut_before'
}

function verdictOf(strike: Strike, { from }: WireMessage, random: RandomNumbers): Verdict {
  switch (strike) {
    case 'cut_before':
      return { cut: 'both', when: 'before' }
    case 'cut_after':
      return { cut: 'both', when: 'after' }
    case 'reset':
      return { cut: 'both', when: random.oneIn(2) ? 'after' : 'before', reset: true }
    case 'client_lost':
      return { cut: 'client', when: random.oneIn(2) ? 'after' : 'before', reset: true }
    case 'answer_lost':
      // A message from the server is an answer, and the rest of it is lost as well.
      return from === 'client' ? 'lose_answer' : { cut: 'both', when: 'before' }
    case 'delayed':
      return { hold: pause(random.below(LEASE_MS)) }
    case 'held':
      return { hold: pause(LEASE_MS + random.below((HELD_LEASES - 1) * LEASE_MS)) }
    case 'server_cut':
      return { cut: 'server', when: 'after' }
  }
}
