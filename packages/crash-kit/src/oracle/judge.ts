import type { History, PipelineShape, Violation } from '../history.js'
import { type CleanRun, compareWithClean } from './clean-run.js'
import { sameDecisions } from './decisions.js'
import { everyKeyEnds } from './every-key-ends.js'
import { effectsStay } from './effects-stay.js'
import { finalAnswers } from './final-answers.js'
import { foreignRequests } from './foreign-requests.js'
import { forwardOnly } from './forward-only.js'
import { growingFences } from './growing-fences.js'
import { mismatches } from './mismatches.js'
import { lastStates } from './key-writes.js'
import { declaredIn, lostDeclarations } from './lost-declarations.js'
import { nothingLeft } from './nothing-left.js'
import { oneEffect } from './one-effect.js'
import { oneHolder } from './one-holder.js'
import { ownTransaction } from './own-transaction.js'
import { phaseTransactions } from './phase-transactions.js'
import { pinnedVersion } from './pinned-version.js'
import { providerKeys } from './provider-keys.js'
import { reapedWhenExpired } from './reaped-when-expired.js'
import { recordedEffects } from './recorded-effects.js'
import { sameResponse } from './same-response.js'
import { sealedValues } from './sealed-values.js'
import { stagedJobs } from './staged-jobs.js'
import { trueOutcomes } from './true-outcomes.js'
import { outcomesWithoutAFault } from './outcomes-without-a-fault.js'

type Rule = (history: History, shape: PipelineShape, clean: CleanRun | null) => Violation[]

const RULES: readonly Rule[] = [
  oneHolder, // I1
  oneEffect, // I2
  sameResponse, // I3
  phaseTransactions, // I4
  recordedEffects, // I4
  growingFences, // I5
  forwardOnly, // I6
  finalAnswers, // I7
  providerKeys, // I8
  reapedWhenExpired, // I9
  effectsStay, // I9
  pinnedVersion, // I10
  mismatches, // I12
  stagedJobs, // I13
  nothingLeft, // I14
  ownTransaction, // I15
  everyKeyEnds, // L1
  sealedValues, // I17
  trueOutcomes,
  outcomesWithoutAFault,
  foreignRequests, // lints
  sameDecisions,
]

/** What else `judge` has to know. */
export interface JudgeOptions {
  /** Whether the key may end stuck after this fault. Default: if its guarantee says so. */
  readonly mayBeStuck?: boolean
}

/** Returns every violation; none if all rules held. Without a clean run, nothing is compared with one. */
export function judge(
  history: History,
  shape: PipelineShape,
  clean: CleanRun | null,
  options: JudgeOptions = {},
): Violation[] {
  const { mayBeStuck = isStuckByGuarantee(history, shape) } = options
  const mayRepeat = shape.foreign.some(
    ({ phase, guarantee }) => guarantee !== 'keyed' && lostDeclarations(history, phase) > 0,
  )
  return [
    ...RULES.flatMap((rule) => rule(history, shape, clean)),
    ...(clean === null ? [] : compareWithClean(clean, history, { mayBeStuck, mayRepeat })),
  ]
}

/** Returns whether a call was interrupted that may not be repeated at all, or not that late. */
function isStuckByGuarantee(history: History, { points, foreign }: PipelineShape): boolean {
  const stuck = [...lastStates(history).values()].filter(({ state }) => state.status === 'stuck')
  return (
    stuck.length > 0 &&
    stuck.every(({ state: { recoveryPoint, stuckReason } }) => {
      // A failover took the key back to before a phase whose call is declared. A person has to say whether it was made.
      const later = points.slice(points.indexOf(recoveryPoint) + 1)
      // If the declaration itself was lost too, the process that made the call still knows of it.
      if (later.some((phase) => isKnownAfterLoss(history, phase))) return true
      const next = later[0]
      const guarantee = foreign.find(({ phase }) => phase === next)?.guarantee
      return (
        (guarantee === 'at_most_once' && stuckReason === 'unknown_outcome' && wasDeclared(history, next)) ||
        (guarantee === 'keyed' && stuckReason === 'window_passed')
      )
    })
  )
}

function isKnownAfterLoss(history: History, phase: string): boolean {
  return history.lost.length > 0 && (wasDeclared(history, phase) || lostDeclarations(history, phase) > 0)
}

/** Returns whether the call had been declared while the key was running. */
function wasDeclared(history: History, phase: string | undefined): boolean {
  return history.commits
    .flatMap(({ changes }) => changes)
    .some(({ framework, table, after }) => {
      const isRunning = framework && table === 'idempotency_keys' && after?.['status'] === 'running'
      return isRunning && phase !== undefined && declaredIn(after['intent']) === phase
    })
}
