import type { Pipeline } from '@pawl/core'
import { several } from './sweep.js'
import type { WireRequest } from './wire-request.js'
import { LEASE_MS, SETTINGS, type WireTrial } from './wire-trial.js'

/** How many clients come back at the same time. */
const AT_ONCE = 6

/** How long each of them asks: only the pipeline's own troubles are still in its way. */
const LATE_CLIENT_ASKS_MS = 10 * LEASE_MS

/**
 * Called once faults have stopped. The completer finishes what has not ended, every client comes back for its answer, and
 * the relay hands the jobs over. Returns the rounds of the completer, or null if it could not finish some key.
 */
export async function conclude<DB, Input>(
  trial: WireTrial,
  requests: readonly WireRequest<DB, Input>[],
  pipelines: readonly Pipeline<DB, Input>[],
): Promise<number | null> {
  const rounds = await trial.complete<DB>({ pipelines })
  const late = trial.engine<DB>('late', null, { pipelines, defaults: SETTINGS, connections: AT_ONCE })
  await several(requests, AT_ONCE, (request) => request.askUntilOver(late, LATE_CLIENT_ASKS_MS))
  // A key that nobody had reserved before has begun only now, and may have to wait for its provider.
  const more = await trial.complete<DB>({ pipelines })
  await several(
    requests.filter(({ isOver }) => !isOver),
    AT_ONCE,
    (request) => request.ask(late),
  )
  await trial.leave(late)
  await trial.relay()
  return rounds === null || more === null ? null : rounds + more
}
