import { randomUUID } from 'node:crypto'
import { announce } from '../announce/announce.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { orderOf } from '../pipeline/phase-order.js'
import { raiseFence } from '../storage/keys/raise-fence.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { findSameKey } from '../storage/keys/find-key.js'
import { pauseBeforeRetry } from './back-off.js'
import { classifyError } from './classify-error.js'
import { heldOrThrow } from './fenced-off.js'
import type { Run } from './run.js'

/**
 * Finds out what became of a write that got no answer, by raising the fence: what has not landed by then no longer can. It
 * tries on new connections, for as long as the lost transaction can live, which server-side time-outs bound.
 */
export async function raiseFenceOf(run: Run, error: unknown): Promise<KeyRow | 'unreachable'> {
  const by = { holder: randomUUID(), leaseMs: longestLeaseMs(run) }
  run.raisingAs = by.holder
  const giveUpAt = performance.now() + by.leaseMs
  for (let attempt = 0; performance.now() < giveUpAt; attempt++) {
    let raised: KeyRow | null
    try {
      raised = await raiseOnce(run, by, attempt)
    } catch (raiseError) {
      const sqlState = sqlStateOf(raiseError)
      const passing = classifyError(raiseError) !== 'unknown' || sqlState === null
      if (!passing) {
        announce('pawl:warning', () => ({ message: 'raising the fence failed', error: raiseError }))
        return 'unreachable'
      }
      await pauseBeforeRetry(attempt)
      continue
    }
    const row = heldOrThrow(raised)
    if (row.sealed === null) return row
    announce('pawl:warning', () => ({ message: 'a key of ours cannot be read any more', error: row.sealed }))
    return 'unreachable'
  }
  announce('pawl:warning', () => ({
    message: 'the outcome of a COMMIT stays unknown until the lease ends',
    error,
  }))
  return 'unreachable'
}

/** Returns null if the key is not ours. */
async function raiseOnce(
  { engine, hold, row }: Run,
  by: Parameters<typeof raiseFence>[2],
  attempt: number,
): Promise<KeyRow | null> {
  const { sessions, tables } = engine
  const raised = await sessions.with('raise', (session) => raiseFence({ session, tables }, hold, by))
  if (raised !== null || attempt === 0) return raised
  // Our own raise may have gone through with its answer lost.
  const found = await sessions.with('raise', (session) => findSameKey({ session, tables }, row))
  return found?.holder === by.holder ? found : null
}

/** We do not know yet which point the key is at, so the lease is that of the slowest phase to come. */
function longestLeaseMs({ engine, definition, row }: Run): number {
  const from = orderOf(definition, row.recoveryPoint) + 1
  const toCome = [...definition.phases.slice(from), definition.finish]
  return Math.max(...toCome.map(({ name }) => engine.settings.phase(definition, name).leaseMs))
}
