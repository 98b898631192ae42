import { LEASE_SLACK_MS } from '../limits.js'
import type { RecordedPipeline } from '../pipeline/recorded-pipeline.js'
import { asItStands, decideUnfinished, type Patience } from '../request/decide-unfinished.js'
import { isKnownVersion, unknownVersion } from '../request/request-fingerprint.js'
import { isRecoveryPoint, nextStep } from '../run/next-step.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { decideUnstick, type UnstickDecision } from './decide-unstick.js'
import { durationWords } from './duration-words.js'
import { becomesStuck, explainStep, STUCK_BECAUSE } from './explain-step.js'
import type { NextMove } from './next-move.js'
import { recordedFacts } from './recorded-facts.js'

/**
 * Says what would happen if a key were resumed at a moment of the database's clock. Pure, and decided by the functions that
 * decide it for an engine: `decideUnfinished`, `asItStands` and `nextStep`. `recorded`: the definition that the key is pinned
 * to; null if no engine has recorded it.
 */
export function explainNext(row: KeyRow, recorded: RecordedPipeline | null, nowMs: number): NextMove {
  // Values that are sealed decide nothing: whichever engine runs the key can open them.
  const now = { ...row, sealed: null, nowMs }
  switch (row.status) {
    case 'finished':
      return {
        type: 'replays',
        callsProvider: false,
        sentence: 'A request with this key gets the stored response. Nothing runs.',
        because: 'It is finished.',
      }
    case 'stuck':
      return explainStuck(now, recorded)
    case 'running':
      return explainRunning(now, recorded)
  }
}

function explainStuck(row: KeyRow, recorded: RecordedPipeline | null): NextMove {
  const reason = row.stuckReason ?? 'unknown_outcome'
  const stuck = { type: 'needs_a_person', callsProvider: false, reason, isStuck: true } as const
  const decision = decideUnstick(row, null)
  if (decision.type === 'refuse') {
    const sentence = 'Nothing runs: a person has to say what became of its call, or answer it.'
    return { ...stuck, then: null, sentence, because: STUCK_BECAUSE[reason] }
  }
  const then = explainRunning(unstuck(row, decision.said), recorded)
  const sentence = `Nothing runs until a person unsticks or answers it. Once unstuck: ${then.sentence}`
  return { ...stuck, then, sentence, because: STUCK_BECAUSE[reason] }
}

/** The row as `unstickKey` would leave it. */
function unstuck(row: KeyRow, said: Extract<UnstickDecision, { type: 'unstick' }>['said']): KeyRow {
  return {
    ...row,
    status: 'running',
    stuckReason: null,
    attempts: 0,
    retries: 0,
    runAfterMs: null,
    leaseUntilMs: null,
    unstuckMs: row.nowMs,
    intent: said.kind === 'called' ? said.intent : row.intent,
  }
}

function explainRunning(row: KeyRow, recorded: RecordedPipeline | null): NextMove {
  if (!isKnownVersion(row)) return unknown(`Its ${unknownVersion(row).detail}.`)
  const decision = decideUnfinished(row, patienceOf(recorded), row.kind === 'pipeline')
  switch (decision.type) {
    case 'held': {
      const { leaseLeftMs: inMs } = decision
      const then = explainRunning({ ...row, leaseUntilMs: null, nowMs: row.nowMs + inMs }, recorded)
      return {
        type: 'waits',
        for: 'holder',
        callsProvider: false,
        inMs,
        then,
        sentence: `Nothing: somebody runs it. If its holder has died, its lease runs out in ${durationWords(inMs)}, and then: ${then.sentence}`,
        because: `Its lease is live, and fence ${row.fence} holds it.`,
      }
    }
    case 'rests': {
      const { restMs: inMs } = decision
      const then = explainRunning({ ...row, runAfterMs: null, nowMs: row.nowMs + inMs }, recorded)
      return {
        type: 'waits',
        for: 'back_off',
        callsProvider: false,
        inMs,
        then,
        sentence: `It rests for ${durationWords(inMs)}, unless its client sends it again before. Then: ${then.sentence}`,
        because: 'Its last attempt was given back, and the next one waits before it tries again.',
      }
    }
    case 'mark_stuck':
      return becomesStuck(decision.reason, STUCK_BECAUSE[decision.reason])
    case 'sealed':
      return unknown(decision.error.message)
    case 'free':
      return row.kind === 'atomic' ? ofItsClient(explainFree(row, recorded)) : explainFree(row, recorded)
  }
}

/** What is not recorded has no limits that are known here: then a live lease and a back-off still say something. */
function patienceOf(recorded: RecordedPipeline | null): Patience {
  if (recorded === null) return { leaseBoundMs: Infinity, maxAttempts: Infinity, maxAgeMs: Infinity }
  const { maxAttempts, maxAgeMs, phases } = recorded
  return {
    maxAttempts,
    maxAgeMs,
    leaseBoundMs: Math.max(...phases.map(({ leaseMs }) => leaseMs)) + LEASE_SLACK_MS,
  }
}

function ofItsClient(then: NextMove): NextMove {
  return {
    type: 'needs_its_client',
    callsProvider: false,
    then,
    sentence: `Nothing, until its client sends it again. Then: ${then.sentence}`,
    because: 'It belongs to an atomic handler, which only a request of its client can run.',
  }
}

/** Nothing keeps the key from being taken over. */
function explainFree(row: KeyRow, recorded: RecordedPipeline | null): NextMove {
  if (recorded === null) {
    const { pipeline, version, definitionHash } = row
    return unknown(
      `No engine has recorded version ${version} of '${pipeline}' with the definition ${definitionHash}. Engines record what they are started with.`,
    )
  }
  const definition = recordedFacts(recorded)
  if (!isRecoveryPoint(definition, row.recoveryPoint))
    return unknown(`Its definition has no recovery point '${row.recoveryPoint}'.`)
  const taken = { ...row, ...withoutState(asItStands(row, definition)) }
  return explainStep(nextStep(definition, taken, row.nowMs), taken, recorded)
}

const withoutState = ({
  recoveryPoint,
  intent,
  effectEpoch,
}: ReturnType<typeof asItStands>): Pick<KeyRow, 'recoveryPoint' | 'intent' | 'effectEpoch'> => ({
  recoveryPoint,
  intent,
  effectEpoch,
})

function unknown(because: string): NextMove {
  return { type: 'unknown', callsProvider: false, sentence: 'It cannot be said what would happen.', because }
}
