import type { Arena } from '../run/arena.js'
import type { Entrant } from '../run/entrant.js'
import type { LoadPlan } from '../run/load.js'
import type { Mode } from '../scenarios/scenario.js'

/** A JavaScript engine needs many thousands of requests before it has compiled everything that it will compile. */
const WARM_UP: Readonly<Record<Mode, { readonly requests: number; readonly limitMs: number }>> = {
  quick: { requests: 800, limitMs: 1_000 },
  full: { requests: 15_000, limitMs: 25_000 },
}

/** More than one at a time, to be warm sooner. */
const LEAST_CLIENTS = 16

/** Sends everybody what they are about to be measured with, so that nobody is measured cold. */
export async function warmUp(
  { arena, mode }: { readonly arena: Arena; readonly mode: Mode },
  entrants: readonly Entrant[],
  plan: LoadPlan,
): Promise<void> {
  const { requests, limitMs } = WARM_UP[mode]
  for (const entrant of entrants) {
    await arena.leaveTo(entrant)
    const clients = Math.max(LEAST_CLIENTS, plan.clients)
    await entrant.load({ ...plan, clients, leadInMs: 0, windowMs: limitMs, measure: 'all', atMost: requests })
  }
}
