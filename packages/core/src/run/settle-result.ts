import { announce } from '../announce/announce.js'
import type { KeptLease } from './lease-keeper.js'
import type { ForeignPhase } from '../pipeline/phase.js'
import type { Effect } from '../storage/effects/insert-effect.js'
import { disarmPromise } from '../disarm-promise.js'
import { storableText } from '../storable-text.js'
import { type CallResult, tooLargeResult } from './call-result.js'
import { runTransaction } from './phase-transaction.js'
import type { Run } from './run.js'
import { failureAsked, failureBy, type StepResult } from './step-result.js'

/** Records a known result, with its effect, in one transaction. A failure from here on keeps the result. */
export async function settleResult(
  run: Run,
  phase: ForeignPhase,
  result: CallResult,
  lease: KeptLease | null,
): Promise<StepResult> {
  // Kept in memory: whatever happens to the connection, the call is not repeated. If the result cannot be saved, what was
  // declared remains: that the call may have been made.
  const intent = result.intent ?? run.row.intent
  run.update({ ...run.row, nowMs: run.nowMs(), intent }, run.leasedAt)
  const tooLarge = tooLargeResult(phase, result, run.engine.caps.resultBytes)
  if (tooLarge !== null) {
    announce('pawl:warning', () => ({ message: tooLarge.message, error: tooLarge }))
    // In development it has to be noticed. Elsewhere the call has been made, and settling it now is the safest thing to do.
    if (run.engine.strict.isOn) return failureBy(phase.name, tooLarge, { intent })
  }
  const end = await runTransaction(run, {
    phase,
    by: 'phase',
    body: (context: object) => phase.settle?.(Object.assign(context, { result: result.read() }) as never),
    effect: effectOf(run, phase, result.read()),
    beforeBegin: lease === null ? null : () => lease.end(),
  })
  return end.type === 'rolled_back' ? failureAsked(end.phase, end.directive, { intent }) : end
}

export function effectOf(run: Run, phase: ForeignPhase, result: unknown): Effect {
  return {
    phase: phase.name,
    effectName: phase.effectName,
    providerKey: run.providerKey(phase.effectName),
    reference: referenceOf(phase, result),
  }
}

/** Useful but not required: it must not fail a phase whose effect has happened. */
function referenceOf(phase: ForeignPhase, result: unknown): string | null {
  try {
    const reference = phase.reference?.(result as never)
    disarmPromise(reference)
    return typeof reference === 'string' ? storableText(reference) : null
  } catch (error) {
    announce('pawl:warning', () => ({ message: `reference of phase '${phase.name}' threw`, error }))
    return null
  }
}
