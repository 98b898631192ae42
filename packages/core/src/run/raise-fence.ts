import { randomUUID } from 'node:crypto'
import { announce } from '../announce/announce.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { raiseFence } from '../storage/hold-statements.js'
import type { KeyRow } from '../storage/key-row.js'
import { findKeyById } from '../storage/reserve-statements.js'
import { pauseBeforeRetry } from './back-off.js'
import { classifyError } from './classify-error.js'
import type { Run } from './run.js'

/** Raises the fence on a new connection, for as long as the lost transaction can live: it has server-side time-outs. */
export async function raiseFenceOf(run: Run, error: unknown): Promise<KeyRow | 'fenced_off' | 'unreachable'> {
  const { env } = run.parts
  const leaseMs = longerLeaseMs(run)
  const holder = randomUUID()
  const giveUpAt = performance.now() + leaseMs
  for (let attempt = 0; performance.now() < giveUpAt; attempt++) {
    try {
      const row = await env.sessions.with('raise', (session) =>
        raiseFence({ session, tables: env.tables }, run.hold, {
          holder,
          leaseMs,
          lockTimeoutMs: env.lockTimeoutMs,
        }),
      )
      if (row !== null) return row
      // Our own raise may have gone through with its answer lost.
      return attempt === 0 ? 'fenced_off' : await findOwnRaise(run, holder)
    } catch (raiseError) {
      const sqlState = sqlStateOf(raiseError)
      const passing = classifyError(raiseError) !== 'unknown' || sqlState === null
      if (!passing) {
        announce('pawl:warning', () => ({ message: 'raising the fence failed', error: raiseError }))
        return 'unreachable'
      }
      await pauseBeforeRetry(attempt)
    }
  }
  announce('pawl:warning', () => ({
    message: 'the outcome of a COMMIT stays unknown until the lease ends',
    error,
  }))
  return 'unreachable'
}

async function findOwnRaise(run: Run, holder: string): Promise<KeyRow | 'fenced_off'> {
  const { env } = run.parts
  const row = await env.sessions.with('raise', (session) =>
    findKeyById({ session, tables: env.tables }, run.row.id),
  )
  return row?.holder === holder ? row : 'fenced_off'
}

/** It is not known yet at which of two points the key is, so the lease is that of the slower one. */
function longerLeaseMs(run: Run): number {
  const { definition, row, leaseMs } = run
  const index = definition.phases.findIndex((phase) => phase.name === row.recoveryPoint)
  const next = definition.phases[index + 1]
  return next === undefined
    ? leaseMs
    : Math.max(leaseMs, run.parts.env.settings.leaseMsAt(definition, next.name))
}
