import type { StuckReason } from '../pipeline/outcome.js'
import type { RecordedPipeline } from '../pipeline/recorded-pipeline.js'
import type { Step } from '../run/next-step.js'
import { providerKeyOf } from '../run/provider-key.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { durationWords } from './duration-words.js'
import type { NextMove } from './next-move.js'
import type { RecordedFacts, RecordedForeignFacts } from './recorded-facts.js'

/** Why a key waits for a person. */
export const STUCK_BECAUSE: Readonly<Record<StuckReason, string>> = {
  attempts_exhausted: 'It has failed too often at this point.',
  too_old: 'It has been tried for too long.',
  unknown_outcome: 'A call that must not be repeated may have been made, and nobody knows whether it was.',
  window_passed: 'Its provider may have forgotten the key of the call, and would execute it again.',
  transaction_ended:
    'A phase ended its own transaction, and may have committed rows without its recovery point.',
}

/** Says in words what a step does, and why it is the next one. */
export function explainStep(step: Step<RecordedFacts>, row: KeyRow, recorded: RecordedPipeline): NextMove {
  const { name: phase } = step.phase
  const mayBeSkipped = step.phase.recorded.conditional && row.intent?.phase !== phase
  const unless = mayBeSkipped ? ', unless its condition skips it' : ''
  const from = `It stands at '${row.recoveryPoint}', and nobody holds it.`
  switch (step.do) {
    case 'run_local':
      return {
        type: 'runs',
        phase,
        mayBeSkipped,
        callsProvider: false,
        sentence: `It would run phase '${phase}', which works in the database only${unless}.`,
        because: from,
      }
    case 'finish':
      return {
        type: 'runs',
        phase,
        mayBeSkipped,
        callsProvider: false,
        sentence: 'It would run the last phase, which gives the response. No provider is called.',
        because: from,
      }
    case 'settle':
      return {
        type: 'settles',
        phase,
        mayBeSkipped,
        callsProvider: false,
        sentence: `It would settle phase '${phase}' with the result that is stored, without a call.`,
        because: isSaid(row)
          ? 'A person has said what the call returned.'
          : 'The call has returned, and its result could not be settled yet.',
      }
    case 'call':
      return explainCall(step.phase, step.declareFirst, { row, recorded, mayBeSkipped, unless })
    case 'reconcile':
      return explainAsking(step.phase, step.absentCountsInMs, { row, recorded, mayBeSkipped, unless })
    case 'go_on':
      return {
        type: 'goes_on',
        phase,
        callsProvider: false,
        sentence: `It would go on without the call of phase '${phase}', as the phase says.`,
        because: 'Nobody knows whether the call was executed, and it must not be made twice.',
      }
    case 'mark_stuck':
      return becomesStuck(step.reason, `Phase '${phase}' comes next. ${STUCK_BECAUSE[step.reason]}`)
    case 'stop_at_call':
      return becomesStuck(
        'unknown_outcome',
        `Something is known of a call of phase '${step.call.phase}', and phase '${phase}' comes next: running it would run past that call.`,
      )
  }
}

const isSaid = ({ intent }: KeyRow): boolean => intent?.kind === 'called' && intent.said === true

interface Around {
  readonly row: KeyRow
  readonly recorded: RecordedPipeline
  readonly mayBeSkipped: boolean
  readonly unless: string
}

function explainCall(phase: RecordedForeignFacts, declareFirst: boolean, around: Around): NextMove {
  const { row, mayBeSkipped, unless } = around
  const { effectName, providerKey } = providerOf(phase, around)
  // What has to be declared first and is not declared was not made.
  const again = !declareFirst && row.intent?.kind !== 'not_made' && !isUntouched(row)
  const under = providerKey === null ? 'the same provider key as before' : `the provider key ${providerKey}`
  const how = again
    ? `would call the provider again, under ${under}`
    : `would call the provider, under ${under}`
  const first = declareFirst ? 'declare and make its call: it ' : ''
  return {
    type: 'calls',
    phase: phase.name,
    mayBeSkipped,
    callsProvider: true,
    effectName,
    providerKey,
    again,
    sentence: `It would run phase '${phase.name}' and ${first}${how}${unless}.`,
    because: whyCall(phase, row, again),
  }
}

function whyCall(phase: RecordedForeignFacts, row: KeyRow, again: boolean): string {
  if (row.intent?.kind === 'not_made') return 'A person has said that the call was not made.'
  if (phase.guarantee === 'keyed')
    return again
      ? 'The call may have been made before. The provider knows that key still, and does not execute it twice.'
      : 'The call has not been made.'
  return 'The call was not declared, so it has not been made.'
}

function explainAsking(
  phase: RecordedForeignFacts,
  absentCountsInMs: number | null,
  around: Around,
): NextMove {
  const { mayBeSkipped, unless } = around
  const { effectName, providerKey } = providerOf(phase, around)
  const ifAbsent =
    absentCountsInMs === null
      ? 'If it is not there, that counts only after a while'
      : absentCountsInMs > 0
        ? `If it is not there, that counts only in ${durationWords(absentCountsInMs)}`
        : 'If it is not there, the call would be made'
  return {
    type: 'asks',
    phase: phase.name,
    mayBeSkipped,
    callsProvider: false,
    effectName,
    providerKey,
    callsAfterMs: absentCountsInMs,
    sentence: `It would ask the provider whether the call of phase '${phase.name}' was executed${unless}. ${ifAbsent}.`,
    because:
      phase.guarantee === 'keyed'
        ? 'The call may have been made so long ago that the provider has forgotten its key.'
        : 'The call was declared, and may have been made.',
  }
}

/** The name and key that a provider knows the effect by. */
function providerOf(
  { name, recorded: phase }: RecordedForeignFacts,
  { row, recorded }: Around,
): { readonly effectName: string; readonly providerKey: string | null } {
  const effectName = phase.effectName ?? name
  const { namespace } = recorded
  return { effectName, providerKey: namespace === null ? null : providerKeyOf(namespace, row, effectName) }
}

/** That of a row which nobody has written since it was made. */
const FIRST_REVISION = 1

/**
 * Whether nobody has ever run it: it was enqueued. A row in which attempts are not counted, or not any more, may have been run: by
 * whoever gave it back, or before a person unstuck it.
 */
function isUntouched({ revision, attempts }: KeyRow): boolean {
  return revision === FIRST_REVISION && attempts === 0
}

export function becomesStuck(reason: StuckReason, because: string): NextMove {
  return {
    type: 'needs_a_person',
    callsProvider: false,
    reason,
    isStuck: false,
    then: null,
    sentence: 'It would become stuck, and a person would have to decide.',
    because,
  }
}
