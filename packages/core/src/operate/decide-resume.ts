import type { Intent, KeyRow } from '../storage/key-row.js'
import type { SaidOfCall } from '../storage/steer-statements.js'
import type { CallVerdict } from './operator.js'

/** What to write, or why nothing is written. */
export type ResumeDecision =
  | { readonly type: 'resume'; readonly said: SaidOfCall }
  | { readonly type: 'refuse'; readonly detail: string }

const VERDICTS =
  `Find out at the provider, and give a verdict: { type: 'executed', result } with what the call would have returned, ` +
  `or { type: 'not_executed' } to have it made again.`

/** Whether and how a key may be resumed. Pure: the row says all. */
export function decideResume(row: KeyRow, verdict: CallVerdict | null): ResumeDecision {
  if (row.status !== 'stuck') return refuse(`It is not stuck but ${row.status}.`)
  const { intent, stuckReason } = row
  if (intent?.kind === 'called') {
    if (verdict === null) return { type: 'resume', said: { kind: 'nothing' } }
    return refuse(`What the call of phase '${intent.phase}' returned is known. Resume it without a verdict.`)
  }
  if (verdict === null) {
    if (stuckReason === 'unknown_outcome' || stuckReason === 'window_passed') {
      return refuse(
        `It would be stuck again at once: whether its call was executed is not known. ${VERDICTS}`,
      )
    }
    return { type: 'resume', said: { kind: 'nothing' } }
  }
  return applyVerdict(row, verdict)
}

function applyVerdict(row: KeyRow, verdict: CallVerdict): ResumeDecision {
  const known = row.intent?.phase
  const phase = verdict.phase ?? known
  if (phase === undefined) {
    return refuse(
      `The key does not say which call the verdict is about. Name it as the verdict's phase: the one after recovery ` +
        `point '${row.recoveryPoint}'.`,
    )
  }
  if (known !== undefined && phase !== known) {
    return refuse(`The call in question is that of phase '${known}', not of '${phase}'.`)
  }
  if (row.trail.some(({ point }) => point === phase)) return refuse(`Phase '${phase}' is settled already.`)
  if (verdict.type === 'not_executed') return { type: 'resume', said: { kind: 'not_made', phase } }
  const called: Intent = { kind: 'called', phase, result: verdict.result }
  return { type: 'resume', said: { kind: 'called', phase, intentJson: JSON.stringify(called) } }
}

function refuse(detail: string): ResumeDecision {
  return { type: 'refuse', detail }
}
