import { randomUUID } from 'node:crypto'
import { announce } from '../announce/announce.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { phaseAfter } from '../pipeline/phase-order.js'
import { raiseFence } from '../storage/keys/raise-fence.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { findKeyById } from '../storage/keys/find-key-by-id.js'
import { pauseBeforeRetry } from './back-off.js'
import { classifyError } from './classify-error.js'
import { unlessFencedOff } from './fenced-off.js'
import type { Run } from './run.js'

/**
 * Finds out what became of a write that got no answer, by raising the fence: what has not landed by then no longer can. It
 * tries on new connections, for as long as the lost transaction can live, which server-side time-outs bound.
 */
export async function raiseFenceOf(run: Run, error: unknown): Promise<KeyRow | 'unreachable'> {
  const by = { holder: randomUUID(), leaseMs: longerLeaseMs(run), lockTimeoutMs: run.engine.lockTimeoutMs }
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
    return unlessFencedOff(raised)
  }
  announce('pawl:warning', () => ({
    message: 'the outcome of a COMMIT stays unknown until the lease ends',
    error,
  }))
  return 'unreachable'
}

/** Returns null if the key is not ours. */
async function raiseOnce(
  { engine, hold }: Run,
  by: Parameters<typeof raiseFence>[2],
  attempt: number,
): Promise<KeyRow | null> {
  const { sessions, tables } = engine
  const raised = await sessions.with('raise', (session) => raiseFence({ session, tables }, hold, by))
  if (raised !== null || attempt === 0) return raised
  // Our own raise may have gone through with its answer lost.
  const row = await sessions.with('raise', (session) => findKeyById({ session, tables }, hold.id))
  return row?.holder === by.holder ? row : null
}

/** We do not know yet which of two points the key is at, so the lease is that of the slower one. */
function longerLeaseMs(run: Run): number {
  const { definition, row, leaseMs } = run
  const next = phaseAfter(definition, row.recoveryPoint)
  return next.kind === 'finish'
    ? leaseMs
    : Math.max(leaseMs, run.engine.settings.leaseMsAt(definition, next.name))
}
