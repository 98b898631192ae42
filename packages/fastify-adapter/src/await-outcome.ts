import type { FoundKey } from '@pawl/core/internal'
import type { Answerable } from './answer.js'
import type { Turn } from './key-watch.js'

/** Asks the engine. `found`: the key as it was read for all who wait for it; null where it has to be asked for. */
export type AskEngine = (found: FoundKey | null) => Promise<Answerable>

/** A place in the waiting room. */
interface Place {
  /** Resolves when it is time to ask again, and after `timeoutMs` at the latest. */
  turn(timeoutMs: number, takesOver: boolean): Promise<Turn>
  /** Ends a wait, too. */
  leave(): void
}

/** How a duplicate waits for the first request, or a client for what runs in the background. */
export interface Wait {
  /** Returns null where there is no place left. */
  readonly enter: () => Place | null
  /** 0 means not at all. */
  readonly waitMs: number
  /** Calls back when nobody waits for the answer any more; at once if that is so. Returns a function that stops it. */
  readonly onceGone: (listener: () => void) => () => void
}

/** Asks for the outcome, and again when it is time to, while somebody else runs the key and until the wait is over. */
export async function awaitOutcome(ask: AskEngine, wait: Wait): Promise<Answerable> {
  const until = performance.now() + wait.waitMs
  const outcome = await ask(null)
  if (wait.waitMs === 0 || !isUnderWay(outcome)) return outcome
  const place = wait.enter()
  if (place === null) return outcome
  const stay = wait.onceGone(() => place.leave())
  try {
    return await takeTurns(ask, place, until, outcome)
  } finally {
    stay()
    place.leave()
  }
}

async function takeTurns(
  ask: AskEngine,
  place: Place,
  until: number,
  first: Answerable,
): Promise<Answerable> {
  for (let outcome = first; ;) {
    const turn = await place.turn(until - performance.now(), outcome.type === 'in_flight')
    switch (turn.type) {
      case 'over':
        return outcome
      case 'unavailable':
        return { type: 'unavailable', error: turn.error }
      case 'ask':
        outcome = await ask(turn.found)
    }
    if (!isUnderWay(outcome)) return outcome
  }
}

function isUnderWay({ type }: Answerable): boolean {
  return type === 'in_flight' || type === 'enqueued'
}
