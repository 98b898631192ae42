import { announce } from '../announce/announce.js'
import type { Tracing } from '../announce/tracing.js'
import { isConnectionLost, PawlError } from '../errors.js'
import { MAX_REDECISIONS } from '../limits.js'
import type { Outcome } from '../pipeline/outcome.js'
import type { AnyPhase, FinishPhase, ForeignPhase, LocalPhase } from '../pipeline/phase.js'
import { skipPhase } from '../storage/keys/skip-phase.js'
import { renewLeases } from '../storage/keys/renew-leases.js'
import type { TrailEntry } from '../storage/keys/trail.js'
import { runForeignStep } from './foreign-phase.js'
import { applyRaised } from './apply-raised.js'
import { FencedOff, isFencedOff, heldOrThrow } from './fenced-off.js'
import { announceFailure, giveBack, markStuck, whatOthersMadeOfIt } from './give-back.js'
import { keyWentBack } from './key-went-back.js'
import { nextStep, type Step } from './next-step.js'
import { isSkipped, Leg, NOTHING_LEFT } from './leg.js'
import { runTransaction } from './phase-transaction.js'
import { raiseFenceOf } from './raise-fence-of.js'
import type { Run } from './run.js'
import { type Failure, failure, failureAsked, failureBy, type StepResult } from './step-result.js'
import { localWork } from './work.js'

/** The loop: look at the row, do the next step, until there is a response or the key is given back. */
export function runPipeline(run: Run): Promise<Outcome> {
  return toTheEnd(run, () => runSteps(run))
}

/** For a grant under which no phase may run. */
export function failRun(run: Run, failed: Failure): Promise<Outcome> {
  return toTheEnd(run, () => giveBack(run, failed))
}

async function toTheEnd(run: Run, work: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await catchFencedOff(run, work)
  } finally {
    run.releaseSession()
    run.end()
  }
}

/** The one place that catches `FencedOff`, wherever it was thrown: the run then returns what others made of its key. */
async function catchFencedOff(run: Run, work: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await work()
  } catch (error) {
    if (!isFencedOff(error)) throw error
    return catchFencedOff(run, () => whatOthersMadeOfIt(run, error))
  }
}

async function runSteps(run: Run): Promise<Outcome> {
  let redecisions = 0
  for (;;) {
    const step = nextStep(run.definition, run.row, run.nowMs())
    const { name } = step.phase
    run.phase = name
    // No session may be held while a provider answers, or while another session is asked for.
    if (run.engine.stopping.aborted || !isTransactionAlone(step)) run.releaseSession()
    const result = run.engine.stopping.aborted
      ? failure(name, 'closing', new PawlError('PAWL_CLOSING', 'The engine is closing.'), {
          intent: run.row.intent,
        })
      : await traceStep(run, step)
    if (run.hasStaged && (result.type === 'advanced' || result.type === 'finished')) run.engine.staged.wake()
    run.hasStaged = false
    switch (result.type) {
      case 'advanced':
        announceCommitted(run, result.committed)
        redecisions = 0
        continue
      case 'again':
        if (++redecisions <= MAX_REDECISIONS) continue
        return giveBack(
          run,
          failure(name, 'transient_error', new PawlError('PAWL_CONNECTION_LOST', TOO_OFTEN), {
            intent: run.row.intent,
          }),
        )
      case 'finished': {
        const { response } = result
        announceCommitted(run, result.committed)
        announce('pawl:finished', () => ({
          ...run.grantMessage(),
          recoveryPoint: 'finished',
          status: response.status,
        }))
        return { type: 'completed', keyId: run.row.id, response, expiresAt: new Date(result.expiresMs) }
      }
      case 'failed':
        return giveBack(run, result)
      case 'stuck':
        if (result.error !== null) announceFailure(run, failureBy(name, result.error))
        return markStuck(run, result.reason, result.intent, result.error)
    }
  }
}

function announceCommitted(run: Run, committed: readonly TrailEntry[]): void {
  for (const { point, skipped } of committed) {
    if (point !== 'finished')
      announce('pawl:phase_committed', () => ({ ...run.phaseMessage(point), skipped }))
  }
}

const TOO_OFTEN = 'The connection to PostgreSQL broke again and again.'

/** Without tracing, it is `runStep` itself: nothing is built, and no turn of the event loop is added. */
function traceStep(run: Run, step: Step): Promise<StepResult> {
  const { current } = run.engine.tracing
  return current === null ? runStep(run, step) : runTracedStep(current, run, step)
}

function runTracedStep(tracing: Tracing, run: Run, step: Step): Promise<StepResult> {
  const { name: phase, kind } = step.phase
  return tracing.phase<StepResult>({ phase, kind, step: step.do }, () => runStep(run, step))
}

async function runStep(run: Run, step: Step): Promise<StepResult> {
  const { phase } = step
  if (step.do === 'stop_at_call') {
    const error = keyWentBack(run.row.recoveryPoint, step.call)
    return { type: 'stuck', phase: phase.name, reason: 'unknown_outcome', intent: step.call, error }
  }
  announce('pawl:phase_started', () => run.phaseMessage(phase.name))
  try {
    const refused = await askWhetherItMay(run, phase)
    if (refused !== null) return refused
    const leg = Leg.startingWith(run, phase)
    if (phase.kind !== 'finish' && isSkipped(run, phase, leg)) return await skip(run, phase, leg)
    switch (step.do) {
      case 'run_local':
      case 'finish':
        return await runLocal(run, step.phase, leg)
      case 'call':
        return run.leaseIsStale ? await renew(run, step.phase) : await runForeignStep(run, step)
      default:
        return await runForeignStep(run, step)
    }
  } catch (error) {
    if (isFencedOff(error)) throw error
    return failureBy(phase.name, error, { intent: run.row.intent })
  }
}

/** Asks, before the first phase, whether a request that was accepted a while ago may still begin. Returns null if it may. */
async function askWhetherItMay(run: Run, phase: AnyPhase): Promise<StepResult | null> {
  const { authorize } = run.definition
  if (!run.awaitsAuthorization || authorize === null) return null
  const work = { phase, by: 'authorize', body: authorize, effect: null, beforeBegin: null } as const
  const end = await runTransaction(run, work, Leg.startingWith(run, phase))
  if (end.type !== 'rolled_back') return end
  if (end.directive !== null) return failureAsked(phase.name, end.directive)
  run.awaitsAuthorization = false
  return null
}

function isTransactionAlone(step: Step): boolean {
  return step.do === 'finish' || (step.do === 'run_local' && step.phase.when === null)
}

async function runLocal(run: Run, phase: LocalPhase | FinishPhase, leg: Leg): Promise<StepResult> {
  const end = await runTransaction(run, localWork(phase), leg)
  const { intent } = run.row
  return end.type === 'rolled_back' ? failureAsked(end.phase, end.directive, { intent }) : end
}

/** Records that the phase was skipped: by itself, or together with the phases that follow in the same leg. */
async function skip(run: Run, phase: LocalPhase | ForeignPhase, from: Leg): Promise<StepResult> {
  const { engine, definition } = run
  const skipped = from.reach(phase.name, from.stateJson, { skipped: true })
  const { leg, phase: next } = skipped.next(engine.settings.phase(definition, phase.name), NOTHING_LEFT)
  if (next !== null && next.kind !== 'foreign') {
    announce('pawl:phase_started', () => run.phaseMessage(next.name))
    return runLocal(run, next, leg)
  }
  const { advance } = leg
  const sentAt = performance.now()
  try {
    const answer = await engine.sessions.with(phase.name, (session) =>
      skipPhase({ session, tables: engine.tables }, run.hold, advance),
    )
    run.advanced(advance, heldOrThrow(answer), sentAt)
    return { type: 'advanced', committed: leg.reached }
  } catch (error) {
    if (!isConnectionLost(error)) throw error
    const raised = await raiseFenceOf(run, error)
    if (raised === 'unreachable') throw error
    const before = run.row.trail.length
    const isForward = applyRaised(run, raised, sentAt) === 'forward'
    return isForward ? { type: 'advanced', committed: raised.trail.slice(before) } : { type: 'again' }
  }
}

/** A frozen process asks whether the key is still its own before it sends anything. */
async function renew(run: Run, phase: ForeignPhase): Promise<StepResult> {
  const { engine } = run
  const sentAt = performance.now()
  const { leaseMs } = run
  const [renewal] = await engine.sessions.with(phase.name, (session) =>
    renewLeases({ session, tables: engine.tables }, [{ ...run.hold, leaseMs }]),
  )
  const { result, nowMs } = heldOrThrow(renewal)
  if (result === 'lost') throw new FencedOff()
  if (result === 'locked') {
    const error = new PawlError(
      'PAWL_LEASE_LOST',
      `The key was locked when phase '${phase.name}' was about to call.`,
    )
    return failure(phase.name, 'transient_error', error, { intent: run.row.intent })
  }
  run.update({ ...run.row, nowMs }, sentAt)
  run.renewedAt = run.row.recoveryPoint
  return { type: 'again' }
}
