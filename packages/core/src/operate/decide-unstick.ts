import { MAX_TIMER_MS } from '../limits.js'
import type { Intent, KeyRow } from '../storage/keys/key-row.js'
import type { SaidOfCall } from '../storage/keys/unstick-key.js'
import type { CallVerdict } from './operator.js'

/** What to write, or why nothing is written. */
export type UnstickDecision =
  | { readonly type: 'unstick'; readonly said: SaidOfCall }
  | { readonly type: 'refuse'; readonly detail: string }

const VERDICTS =
  `Find out at the provider, and pass a verdict: { type: 'executed', result } with what the call would have returned, ` +
  `or { type: 'not_executed' } to have it made again.`

/** Whether and how a key may be unstuck. Pure: it decides from the row alone. */
export function decideUnstick(row: KeyRow, verdict: CallVerdict | null): UnstickDecision {
  if (row.status !== 'stuck') return refuse(`The key is ${row.status}, and only a stuck key can be unstuck.`)
  const { intent, stuckReason } = row
  const isInDoubt = stuckReason === 'unknown_outcome' || stuckReason === 'window_passed'
  if (intent?.kind === 'called' && intent.said !== true) {
    if (verdict === null) {
      if (!isInDoubt) return { type: 'unstick', said: { kind: 'nothing' } }
      // The result may belong to a later phase than the next one. With a person's word, it is kept until that phase's
      // turn.
      if (row.sealed !== null)
        return refuse(`Its result is protected, and must not get lost: ${row.sealed.message}`)
      return { type: 'unstick', said: { kind: 'called', intent: { ...intent, said: true } } }
    }
    return refuse(
      `What the call of phase '${intent.phase}' returned is known. Unstick the key without a verdict.`,
    )
  }
  if (verdict === null) {
    if (isInDoubt && !isSaid(intent)) {
      return refuse(
        `The key would be stuck again at once, because nobody knows whether its call was executed. ${VERDICTS}`,
      )
    }
    return { type: 'unstick', said: { kind: 'nothing' } }
  }
  return applyVerdict(row, verdict)
}

/**
 * A verdict is accepted only for the call that the key itself considers in doubt: given for another phase, it would have
 * the wrong call made again, or skipped.
 */
function applyVerdict(row: KeyRow, verdict: CallVerdict): UnstickDecision {
  const { intent, nowMs } = row
  if (intent === null || !(intent.kind === 'calling' || isSaid(intent))) {
    return refuse(
      'None of its calls is in doubt. Unstick the key without a verdict: a call that may have been made is repeated under its ' +
        'own provider key, or the key becomes stuck again and says which call is in doubt.',
    )
  }
  const { phase } = intent
  if (verdict.phase !== undefined && verdict.phase !== phase) {
    return refuse(`The call in doubt is that of phase '${phase}', not that of '${verdict.phase}'.`)
  }
  if (verdict.type === 'not_executed') {
    // The row already says so, and under which provider key the call is to be made.
    if (intent.kind === 'not_made') return { type: 'unstick', said: { kind: 'nothing' } }
    const endsMs = intent.kind === 'calling' ? endOf(intent, row) : nowMs
    if (endsMs > nowMs) {
      const until = new Date(endsMs).toISOString()
      return refuse(
        `The call of phase '${phase}' may still be under way until ${until}. Ask the provider again after that.`,
      )
    }
    return { type: 'unstick', said: { kind: 'not_made', phase } }
  }
  const called: Intent = { kind: 'called', phase, result: verdict.result, said: true }
  return { type: 'unstick', said: { kind: 'called', intent: called } }
}

/** Whether a person has given a verdict. Another one may be given as long as the call's turn has not come. */
function isSaid(intent: Intent | null): boolean {
  return intent?.kind === 'not_made' || (intent?.kind === 'called' && intent.said === true)
}

/**
 * Until when the call may be under way. A deadline on another server's clock means nothing here. We then assume that the
 * call was made when the row was last written, and takes as long as it may, or as long as any call may where that is not
 * known.
 */
function endOf(call: Extract<Intent, { kind: 'calling' }>, { server, updatedMs }: KeyRow): number {
  if (call.server === undefined || call.server === server) return call.deadlineMs
  return updatedMs + (call.timeoutMs ?? MAX_TIMER_MS)
}

function refuse(detail: string): UnstickDecision {
  return { type: 'refuse', detail }
}
