import { isDeepStrictEqual } from 'node:util'
import type { History, Violation } from '../../../packages/crash-kit/src/history.js'
import type { PipelinePlan } from '../pipelines/pipeline-plan.js'
import { asSeen, type Expected } from '../pipelines/reference-model.js'
import { observeHistory, type ObservedEnd } from './observe-history.js'

/** Where a history that faults may have disturbed ended differently from the reference model. */
export function modelViolations(history: History, expected: Expected, plan: PipelinePlan): Violation[] {
  const observed = observeHistory(history)
  const violations = differences(observed, expected, plan)
  const { unlessTroubled } = expected
  if (violations.length === 0 || unlessTroubled === null) return violations
  return differences(observed, unlessTroubled, plan).length === 0 ? [] : violations
}

function differences(observed: ObservedEnd, expected: Expected, plan: PipelinePlan): Violation[] {
  const { point } = observed.snapshot
  const at = expected.snapshots.findIndex((snapshot) => snapshot.point === point)
  const trail = expected.snapshots
    .slice(1, at + 1)
    .map((each) => ({ point: each.point, skipped: each.skipped }))
  return [
    ...differs(
      `what is committed at '${point}'`,
      observed.snapshot,
      asSeen(expected.snapshots[at], observed.snapshot),
    ),
    ...differs('the trail', observed.trail, trail),
    ...endViolations(observed, expected, nextPhase(observed, plan)),
  ]
}

function endViolations(observed: ObservedEnd, expected: Expected, next: string): Violation[] {
  const { status, snapshot, charges } = observed
  const mayMarkStuck =
    expected.mayBeStuckAt.includes(next) || (expected.end.status === 'stuck' && expected.end.phase === next)
  if (status === 'stuck') {
    return mayMarkStuck && observed.stuckReason === 'unknown_outcome'
      ? differs(
          'effects',
          charges.filter((phase) => phase !== next),
          snapshot.effects,
        )
      : [
          violation(
            `It is stuck before '${next}' (${observed.stuckReason}), where the model has ${expected.end.status}.`,
          ),
        ]
  }
  if (expected.end.status === 'stuck') return [violation(`It is ${status}, where the model has stuck.`)]
  return [
    ...differs('the response', observed.response, expected.end.response),
    ...differs('effects', charges, snapshot.effects),
  ]
}

/** The phase that the key would run next. */
function nextPhase({ snapshot }: ObservedEnd, { phases }: PipelinePlan): string {
  return phases[phases.findIndex(({ name }) => name === snapshot.point) + 1]?.name ?? 'finished'
}

function differs(what: string, seen: unknown, wanted: unknown): Violation[] {
  if (isDeepStrictEqual(seen, wanted)) return []
  return [violation(`${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(wanted)}`)]
}

function violation(detail: string): Violation {
  return { rule: 'oracle', title: 'the final state is that of the reference model', detail }
}
