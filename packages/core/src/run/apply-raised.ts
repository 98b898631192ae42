import { orderOf } from '../pipeline/phase-order.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { Intent, KeyRow } from '../storage/keys/key-row.js'
import type { Run } from './run.js'

/**
 * Continues from the row that raising the fence returned, and returns where the key is, compared with where we believed it
 * to be. `back`: a failover has lost commits that we had an answer to.
 */
export function applyRaised(run: Run, raised: KeyRow, sentAt: number): 'forward' | 'unmoved' | 'back' {
  const before = run.row
  const moved = orderOf(run.definition, raised.recoveryPoint) - orderOf(run.definition, before.recoveryPoint)
  if (moved > 0) {
    run.update(raised, sentAt)
    return 'forward'
  }
  if (moved < 0) {
    run.update({ ...raised, intent: callKnownOf(run, raised) ?? raised.intent }, sentAt)
    return 'back'
  }
  // A result that is only in memory stays known: the call must not be repeated.
  run.update({ ...raised, intent: before.intent }, sentAt)
  return 'unmoved'
}

/**
 * Looks past the point that the row has gone back to. Returns the first call that this grant knows was made, or is under
 * way, and that must not be made again unasked; null if there is none. A call that its provider deduplicates may be
 * repeated.
 */
export function callKnownOf({ definition, row: before }: Run, wentBack: KeyRow): Intent | null {
  const from = orderOf(definition, wentBack.recoveryPoint)
  const to = orderOf(definition, before.recoveryPoint)
  if (from >= to) return null
  const lost = definition.phases
    .slice(from + 1, to + 1)
    .find(({ name }) => isUnrepeatable(definition, name) && !isSkippedIn(before, name))
  if (lost !== undefined) {
    const { intent } = wentBack
    // The declaration may have survived although the advance that settled it is lost: it knows the call's own deadline.
    if (intent?.phase === lost.name && intent.kind !== 'not_made') return intent
    return {
      kind: 'calling',
      phase: lost.name,
      deadlineMs: wentBack.nowMs,
      timeoutMs: 0,
      ...(wentBack.server !== null && { server: wentBack.server }),
    }
  }
  const { intent } = before
  if (intent === null || intent.kind === 'not_made') return null
  return isUnrepeatable(definition, intent.phase) ? intent : null
}

function isUnrepeatable(definition: PipelineDefinition, name: string): boolean {
  const phase = definition.phases.find((each) => each.name === name)
  return phase?.kind === 'foreign' && phase.guarantee !== 'keyed'
}

function isSkippedIn({ trail }: KeyRow, name: string): boolean {
  return trail.some(({ point, skipped }) => point === name && skipped)
}
