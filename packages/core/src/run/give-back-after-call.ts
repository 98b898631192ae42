import { announce } from '../announce/announce.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import { insertLateEffect } from '../storage/effects/insert-effect.js'
import { keepLateEnd } from '../storage/keys/keep-late-end.js'
import { giveBackKey } from '../storage/keys/give-back-key.js'
import type { Intent } from '../storage/keys/key-row.js'
import type { Store } from '../storage/statement.js'
import type { CallAnswer } from './call-provider.js'
import { callResult } from './call-result.js'
import { effectOf } from './settle-result.js'
import { recordError } from './record-error.js'
import type { Run } from './run.js'

/**
 * When a call that outlived its time-out ends, gives its key back, with its result if it has one. If the key is in a
 * person's hands by then, what came of the call is kept for them.
 */
export function giveBackAfterCall(run: Run, phase: ForeignPhase, pending: Promise<CallAnswer>): void {
  const { sessions, tables, afterwards } = run.engine
  // The key of the epoch that the call was made in.
  const providerKey = run.providerKey(phase.effectName)
  const work = pending.then(async (answer) => {
    // Not before this run has done its last write, which would overwrite what is kept here.
    await run.ended
    try {
      const kept = await sessions.with(phase.name, (session) =>
        keepEnd(run, phase, answer, providerKey, { session, tables }),
      )
      if (kept !== 'kept') announceDropped(run, phase, answer, kept)
    } catch (error) {
      announce('pawl:warning', () => ({
        message: 'a late result could not be saved; the lease will run out',
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
  answer: CallAnswer,
  providerKey: string,
  store: Store,
): Promise<'kept' | 'of_another' | 'decided'> {
  const { intent } = run.row
  const result = answer.type === 'returned' ? callResult(phase, answer.value).intent : null
  const lastError = answer.type === 'threw' ? recordError(answer.error, run.engine.redact) : null
  const late: Intent | null = result?.kind === 'called' ? { ...result, late: true } : null
  const end = { phase: phase.name, intent: late, lastError }
  const insertEffect = async (): Promise<void> => {
    if (answer.type !== 'returned') return
    await insertLateEffect(store, run.row, { ...effectOf(run, phase, answer.value), providerKey })
  }
  if (run.goneOnFrom.has(phase.name)) {
    // The request has gone on without the call, unless the key has gone back behind it and a person is about to say what
    // came of it. That it was executed after all matters to those who compare with the provider.
    const isKept =
      late !== null && (await keepLateEnd(store, run.hold, { ...end, alsoUndeclared: false })) === 'kept'
    if (!isKept) await insertEffect()
    return 'kept'
  }
  const isBack = await giveBackKey(store, run.hold, {
    keepLease: false,
    runAfterMs: 0,
    // What it counts as was decided when the time-out was reported.
    countsAs: 'attempt',
    raiseEpoch: false,
    intent: result ?? intent,
    lastError,
  })
  if (isBack) return 'kept'
  const kept = await keepLateEnd(store, run.hold, { ...end, alsoUndeclared: true })
  if (kept === 'of_another') await insertEffect()
  return kept
}

/** Somebody has taken the key over, or decided about the call. What was decided without this result may be wrong. */
function announceDropped(
  run: Run,
  { name, guarantee }: ForeignPhase,
  { type }: CallAnswer,
  kept: 'of_another' | 'decided',
): void {
  const isNews = kept === 'of_another' || guarantee === 'at_most_once'
  if (!isNews || type !== 'returned') return
  const call = `the call of phase '${name}' of key ${run.row.id} returned after`
  const message =
    kept === 'of_another'
      ? `${call} its key had gone back to before another call: it was executed, and is recorded as an effect.`
      : `${call} somebody had decided about it: it was executed. Compare that with what was decided.`
  announce('pawl:warning', () => ({ message, error: null }))
}
