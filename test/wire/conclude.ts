import type { Pipeline } from '@pawl/core'
import { several } from './sweep.js'
import type { WireRequest } from './wire-request.js'
import { LEASE_MS, SETTINGS, type WireTrial } from './wire-trial.js'

/** Clients that come back at a time. */
const AT_ONCE = 6

/** How long one of them asks: nothing is in its way any more but the pipeline's own troubles. */
const LATE_CLIENT_ASKS_MS = 10 * LEASE_MS

/**
 * Faults have stopped. The completer ends what has not ended, every client comes back for its answer, and the relay
 * hands the jobs over. Resolves to the rounds of the completer; null: it could not end some key.
 */
export async function conclude<DB, Input>(
  trial: WireTrial,
  requests: readonly WireRequest<DB, Input>[],
  pipelines: readonly Pipeline<DB, Input>[],
): Promise<number | null> {
  const rounds = await trial.complete<DB>({ pipelines })
  const late = trial.engine<DB>('late', null, { pipelines, defaults: SETTINGS, connections: AT_ONCE })
  await several(requests, AT_ONCE, (request) => request.askUntilOver(late, LATE_CLIENT_ASKS_MS))
  // One that nobody had come as far as to reserve began only now, and may have to wait for its provider.
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
