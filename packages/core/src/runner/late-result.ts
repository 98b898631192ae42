import { announce } from '../announce/announce.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import { insertLateEffect } from '../storage/effect-statements.js'
import { keepLateEnd, releaseKey } from '../storage/hold-statements.js'
import type { Intent } from '../storage/key-row.js'
import type { Store } from '../storage/statement.js'
import type { Settlement } from './call-provider.js'
import { keepResult } from './kept-result.js'
import { effectOf } from './settle-result.js'
import { recordError } from './record-error.js'
import type { Run } from './run.js'

/**
 * Once a call that outlived its time-out ends, gives its key back, with its result if it has one. Where the key is a
 * person's by then, what the call came to is kept for them.
 */
export function releaseWhenSettled(run: Run, phase: ForeignPhase, pending: Promise<Settlement>): void {
  const { env, afterwards } = run.parts
  // Of the epoch that the call was made in.
  const providerKey = run.providerKey(phase.effectName)
  const work = pending.then(async (settlement) => {
    // Not before this run has written its last: it would write over what is kept here.
    await run.ended
    try {
      const isKept = await env.sessions.with(phase.name, (session) =>
        keepEnd(run, phase, settlement, providerKey, { session, tables: env.tables }),
      )
      if (!isKept) announceDropped(run, phase, settlement)
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

async function keepEnd(
  run: Run,
  phase: ForeignPhase,
  settlement: Settlement,
  providerKey: string,
  store: Store,
): Promise<boolean> {
  if (run.goneOnFrom.has(phase.name)) {
    // The request has gone on without it. That it was executed after all is for those who compare with the provider.
    if (settlement.type === 'returned')
      await insertLateEffect(store, run.row, { ...effectOf(run, phase, settlement.value), providerKey })
    return true
  }
  const { lockTimeoutMs } = run.parts.env
  const { intent } = run.row
  const result = settlement.type === 'returned' ? keepResult(phase, settlement.value).intent : null
  const lastError = settlement.type === 'threw' ? recordError(settlement.error) : null
  const released = await releaseKey(store, run.hold, {
    keepLease: false,
    runAfterMs: 0,
    // What it counts as was settled when the time-out was reported.
    countsAs: 'attempt',
    raiseEpoch: false,
    intent: result ?? intent,
    lastError,
    lockTimeoutMs,
  })
  if (released) return true
  const late: Intent | null = result?.kind === 'called' ? { ...result, late: true } : null
  return keepLateEnd(store, run.hold, { intent: late, lastError, lockTimeoutMs })
}

/** Somebody has taken the key over, or decided about it. What was decided without this result may be wrong. */
function announceDropped(run: Run, { name, guarantee }: ForeignPhase, { type }: Settlement): void {
  if (guarantee !== 'at_most_once' || type !== 'returned') return
  announce('pawl:warning', () => ({
    message:
      `the call of phase '${name}' of key ${run.row.id} returned after somebody had decided about it: it was executed. ` +
      'Compare with what was decided.',
    error: null,
  }))
}
