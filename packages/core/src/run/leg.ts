import { announce } from '../announce/announce.js'
import { disarmPromise } from '../disarm-promise.js'
import { PawlError } from '../errors.js'
import type { AnyPhase, ForeignPhase, LocalPhase } from '../pipeline/phase.js'
import type { ResolvedPhaseSettings } from '../pipeline/settings.js'
import type { Advance, Declaration } from '../storage/keys/advance-key.js'
import type { TrailEntry } from '../storage/keys/trail.js'
import { nextStep } from './next-step.js'
import type { Run } from './run.js'

/**
 * What one transaction commits: with `commits: 'each'` one phase, with `'fewest'` all phases up to the next call. It
 * gathers what they have done. Nothing of it counts before the transaction has committed, so the run's row stays as it is.
 */
export class Leg {
  readonly #run: Run
  /** On the monotonic clock. */
  readonly #beganAt: number
  /** The phase that this leg begins with. If it is a foreign one, the leg settles its call. */
  readonly firstPhase: string
  /** The last phase that was reached. */
  readonly point: string
  readonly stateJson: string
  /** What was reached in this leg. */
  readonly reached: readonly TrailEntry[]
  /** The call that follows, if it has to be declared. */
  readonly #declares: Declaration | null
  #advance: Advance | null = null

  private constructor(
    run: Run,
    firstPhase: string,
    reached: readonly TrailEntry[],
    stateJson: string,
    beganAt: number,
    declares: Declaration | null = null,
  ) {
    this.#run = run
    this.#beganAt = beganAt
    this.#declares = declares
    this.firstPhase = firstPhase
    this.reached = reached
    this.point = reached.at(-1)?.point ?? run.row.recoveryPoint
    this.stateJson = stateJson
  }

  /** A leg that begins with this phase. */
  static startingWith(run: Run, phase: AnyPhase): Leg {
    return new Leg(run, phase.name, [], run.row.stateJson, performance.now())
  }

  /** This leg, with one more phase. */
  reach(point: string, stateJson: string, how: { skipped?: boolean; outcomeUnknown?: boolean } = {}): Leg {
    const { skipped = false, outcomeUnknown = false } = how
    const { fence } = this.#run.row
    const entry = { point, atMs: Math.floor(this.#run.nowMs()), fence, skipped, outcomeUnknown }
    return new Leg(this.#run, this.firstPhase, [...this.reached, entry], stateJson, this.#beganAt)
  }

  /** The same leg, tried now. */
  begin(): Leg {
    return new Leg(this.#run, this.firstPhase, this.reached, this.stateJson, performance.now())
  }

  /** The whole trail of the key, once this leg has committed. */
  get trail(): readonly TrailEntry[] {
    const { trail, fence } = this.#run.row
    // The fence may have been raised since.
    return [...trail, ...this.reached.map((entry) => ({ ...entry, fence }))]
  }

  /** What the key is moved to. Several parts of a transaction ask, and nothing that it is made of changes in between. */
  get advance(): Advance {
    return (this.#advance ??= this.#writeAdvance())
  }

  #writeAdvance(): Advance {
    const { point, firstPhase, stateJson, trail } = this
    const { engine, definition, row } = this.#run
    return {
      point,
      firstPhase,
      trail,
      declares: this.#declares,
      stateJson: stateJson === row.stateJson ? null : stateJson,
      leaseMs: engine.settings.leaseMsAt(definition, point),
      carriedCallOf: this.#run.carriedCallOf(firstPhase),
    }
  }

  /**
   * The phase that goes on in the same transaction, and the leg as it is then: phases that are skipped on the way are a
   * part of it. Null when the transaction is to be committed first, because
   * - every phase commits by itself;
   * - the phase has set something for its transaction, or left something open in it, that must not reach the next;
   * - the phase says `commit: 'now'`, or has settled a call that must not be made twice, or much of the time is used up;
   * - a call comes next, or a phase whose settings differ, or one whose `when` throws.
   */
  next(
    settings: ResolvedPhaseSettings,
    { hasLeftovers }: { readonly hasLeftovers: boolean },
  ): { readonly leg: Leg; readonly phase: AnyPhase | null } {
    const { engine, definition } = this.#run
    const isAlone = engine.settings.pipeline(definition).commits === 'each'
    if (isAlone || hasLeftovers || this.#endsHere()) return { leg: this, phase: null }
    const step = nextStep(definition, this.#asRow(), this.#run.nowMs())
    const { phase } = step
    const isAsked = phase.kind !== 'finish' && step.do !== 'stop_at_call'
    const answer = isAsked ? this.#ask(phase) : 'run'
    if (answer === 'throws') return { leg: this, phase: null }
    if (answer === 'skip') {
      announce('pawl:phase_started', () => this.#run.phaseMessage(phase.name))
      return this.reach(phase.name, this.stateJson, { skipped: true }).next(settings, NOTHING_LEFT)
    }
    if (step.do === 'call' && step.declareFirst) return { leg: this.#declaring(step.phase), phase: null }
    const isLocal = step.do === 'run_local' || step.do === 'finish'
    const goesOn = isLocal && isSame(settings, engine.settings.phase(definition, phase.name))
    return { leg: this, phase: goesOn ? phase : null }
  }

  /** This leg, which also declares the call that follows it. */
  #declaring({ name: phase }: ForeignPhase): Leg {
    const { engine, definition } = this.#run
    const { callTimeoutMs: timeoutMs } = engine.settings.phase(definition, phase)
    const declares = { phase, timeoutMs }
    return new Leg(this.#run, this.firstPhase, this.reached, this.stateJson, this.#beganAt, declares)
  }

  /** A `when` that throws fails its own phase, once what was reached before has committed. */
  #ask(phase: LocalPhase | ForeignPhase): 'run' | 'skip' | 'throws' {
    try {
      return isSkipped(this.#run, phase, this) ? 'skip' : 'run'
    } catch {
      return 'throws'
    }
  }

  /**
   * Whether the phase that was reached last asks for it, or has settled a call that must not be made twice, or the next phase would
   * have noticeably less of the lease, and of the time that a transaction may be idle, than it has alone.
   */
  #endsHere(): boolean {
    const { engine, definition, row, leasedAt } = this.#run
    if (this.point === row.recoveryPoint) return false
    const { commit, leaseMs, idleTimeoutMs } = engine.settings.phase(definition, this.point)
    if (commit === 'now' || this.#hasSettledForGood()) return true
    const now = performance.now()
    // The lease began before the call, and renewals are not counted: a commit more is better than a phase that is overtaken.
    return (
      now - leasedAt > leaseMs * LEG_SHARE_OF_TIME || now - this.#beganAt > idleTimeoutMs * LEG_SHARE_OF_TIME
    )
  }

  /** A crash in a later phase would lose what is known of such a call, and a person would have to find out. */
  #hasSettledForGood(): boolean {
    const { phases } = this.#run.definition
    const settled =
      this.point === this.firstPhase ? phases.find(({ name }) => name === this.point) : undefined
    return settled?.kind === 'foreign' && settled.guarantee === 'at_most_once'
  }

  /** The row as it would be if this leg had committed. */
  #asRow(): Parameters<typeof nextStep>[1] {
    const { intent, createdMs, server } = this.#run.row
    const carries = this.#run.carriedCallOf(this.firstPhase) !== null
    const { point: recoveryPoint, trail } = this
    return { recoveryPoint, trail, intent: carries ? intent : null, createdMs, server }
  }
}

/** For a leg that has run nothing since it was last asked. */
export const NOTHING_LEFT = { hasLeftovers: false }

/** Less than this of the lease, and of the idle time-out, may have passed when another phase begins in the same leg. */
const LEG_SHARE_OF_TIME = 0.1

/** Phases with other settings get a transaction of their own. How long a call may take does not concern it. */
function isSame(one: ResolvedPhaseSettings, other: ResolvedPhaseSettings): boolean {
  const names = [
    'isolation',
    'transactionRetries',
    'statementTimeoutMs',
    'lockTimeoutMs',
    'idleTimeoutMs',
    'leaseMs',
  ] as const
  return names.every((name) => one[name] === other[name])
}

/** Whether the phase's `when` says no, on the state that the leg has gathered. */
export function isSkipped(run: Run, phase: LocalPhase | ForeignPhase, { stateJson }: Leg): boolean {
  // Once something is known of its call, the question is answered.
  if (phase.when === null || run.row.intent?.phase === phase.name) return false
  const wanted: unknown = phase.when(run.phaseContext(stateJson) as never)
  if (typeof wanted === 'boolean') return !wanted
  disarmPromise(wanted)
  throw new PawlError(
    'PAWL_INVALID_RESULT',
    `when of phase '${phase.name}' has to return true or false synchronously.`,
  )
}
