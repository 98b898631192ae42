import { announce } from '../announce/announce.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import { releaseKey } from '../storage/hold-statements.js'
import type { Settlement } from './call-provider.js'
import { keepResult } from './kept-result.js'
import { recordError } from './record-error.js'
import type { Run } from './run.js'

/** Gives the key back once a call that outlived its time-out ends: with its result, if it has one. */
export function releaseWhenSettled(run: Run, phase: ForeignPhase, pending: Promise<Settlement>): void {
  const { env, afterwards } = run.parts
  const { hold } = run
  const { intent } = run.row
  const work = pending.then(async (settlement) => {
    const result = settlement.type === 'returned' ? keepResult(phase, settlement.value) : null
    const known = result !== null && result.bytes <= env.caps.stateBytes ? result.intent : null
    try {
      await env.sessions.with(phase.name, (session) =>
        releaseKey({ session, tables: env.tables }, hold, {
          keepLease: false,
          runAfterMs: 0,
          // What it counts as was settled when the time-out was reported.
          countsAs: 'attempt',
          raiseEpoch: false,
          intent: known ?? intent,
          lastError: settlement.type === 'threw' ? recordError(settlement.error) : null,
          lockTimeoutMs: env.lockTimeoutMs,
        }),
      )
    } catch (error) {
      announce('pawl:warning', () => ({
        message: 'a late result could not be saved; its lease runs out',
        error,
      }))
    }
  })
  afterwards.add(work)
  void work.finally(() => afterwards.delete(work))
}
