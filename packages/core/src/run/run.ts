import type { PhaseContext, StateObject } from '../pipeline/phase.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { GrantMessage, PhaseMessage } from '../announce/announce.js'
import { providerKeyOf } from './provider-key.js'
import type { Session } from '../driver/session.js'
import type { Hold } from '../storage/keys/hold.js'
import type { Advanced } from '../storage/keys/advanced.js'
import type { Intent, KeyRow } from '../storage/keys/key-row.js'
import type { Advance } from '../storage/keys/advance-key.js'
import type { RunContext } from './run-context.js'
import { JsonCopies } from './json-copies.js'

/** A key that is ours to run. It has the fields of `Granted`, which `request` returns: `run` must not import `request`. */
export interface Grant {
  readonly how: 'reserved' | 'taken_over'
  readonly row: KeyRow
  readonly definition: PipelineDefinition
  /** On this process's monotonic clock, before asking for the grant: a lease counted from here never seems too long. */
  readonly askedAt: number
  /** The session that the key was asked for on, to continue with or to release. */
  readonly session: Session
}

/** More than this of a call's time must not have passed when it is made by a declaration that was committed before. */
const DECLARATION_SHARE_OF_TIME = 0.1

/** One grant of a key, until there is a response, the key is given back, or it is lost. `row` mirrors what is stored. */
export class Run {
  readonly engine: RunContext
  readonly definition: PipelineDefinition
  row: KeyRow
  /** On the monotonic clock: before the statement that last set the lease was sent. */
  leasedAt: number
  /** The holder of a raise of the fence that may have landed with its answer lost: then the key is ours under that name. */
  raisingAs: string | null = null
  /** The phase that the run has come to, for messages. */
  phase: string
  /** The recovery point at which a stale lease was renewed, if it was. */
  renewedAt: string | null = null
  /** On the monotonic clock: when the call that this grant has declared must have ended. */
  callEndsAt = Infinity
  /**
   * The declaration of a call that was committed with the phases before it, while that call has not been made. Until then the
   * row that we keep in memory does not have it: if the call is not made after all, giving the key back clears it.
   */
  #declared: { readonly intent: Intent; readonly sentAt: number } | null = null
  /** The phase whose call a COMMIT with an unknown outcome may have declared. It has not been made. */
  declaresInDoubt: string | null = null
  /** Whether jobs have been written to `staged_jobs` since the relay was last told. */
  hasStaged = false
  /** Whether the request was accepted a while ago and has not begun, and nobody has asked yet whether it still may. */
  awaitsAuthorization: boolean
  #session: Session | null
  /** What the last call with an unknown outcome threw; null if a crash left the outcome open. */
  callError: unknown = null
  /** The phases whose call has an unknown outcome, and which this run has gone on from. */
  readonly goneOnFrom = new Set<string>()
  #hasEnded = false
  readonly #onEnd: (() => void)[] = []
  readonly #inputs = new JsonCopies()
  readonly #states = new JsonCopies()
  #readAt: number
  #providerKey: { readonly of: string; readonly epoch: number; readonly key: string } | null = null

  constructor(engine: RunContext, grant: Grant) {
    this.engine = engine
    this.definition = grant.definition
    this.row = grant.row
    this.leasedAt = grant.askedAt
    const { recoveryPoint, intent } = grant.row
    const hasBegun = recoveryPoint !== 'started' || intent !== null
    this.awaitsAuthorization = grant.definition.authorize !== null && grant.how !== 'reserved' && !hasBegun
    this.phase = recoveryPoint
    this.#session = grant.session
    this.#readAt = performance.now()
  }

  /** Resolves when this run has done its last write. */
  get ended(): Promise<void> {
    return this.#hasEnded ? Promise.resolve() : new Promise((resolve) => this.#onEnd.push(resolve))
  }

  end(): void {
    this.#hasEnded = true
    for (const tell of this.#onEnd) tell()
  }

  /** Returns a session for a phase: the one that was kept, if any. */
  async session(phase: string): Promise<Session> {
    const kept = this.#session
    this.#session = null
    if (kept?.enter(phase) === true) return kept
    kept?.release()
    return this.engine.sessions.acquire(phase)
  }

  /** Keeps the session for a transaction that follows at once; if none does, it is released. */
  keepSession(session: Session): void {
    this.#session = session
  }

  releaseSession(): void {
    this.#session?.release()
    this.#session = null
  }

  get hold(): Hold {
    return this.row
  }

  /** The lease that the coming phase runs under. */
  get leaseMs(): number {
    return this.engine.settings.leaseMsAt(this.definition, this.row.recoveryPoint)
  }

  /**
   * Whether so much of the lease has passed that it may be over: the process was frozen, or waited long. In each phase it
   * is true only until the lease has been renewed once, or a database that answers more slowly than that would be asked
   * forever.
   */
  get leaseIsStale(): boolean {
    return this.renewedAt !== this.row.recoveryPoint && performance.now() - this.leasedAt > this.leaseMs / 2
  }

  get leaseIsOver(): boolean {
    return performance.now() - this.leasedAt >= this.leaseMs
  }

  /** The time by the database's clock: what it last said, plus the time since on a clock that nobody sets. */
  nowMs(): number {
    return this.row.nowMs + (performance.now() - this.#readAt)
  }

  /** Applies what a statement returned to the row we keep in memory. `leasedAt`: when it was sent, if it set the lease. */
  update(row: KeyRow, leasedAt: number): void {
    this.row = row
    this.leasedAt = leasedAt
    if (row.holder === this.raisingAs) this.raisingAs = null
    this.#readAt = performance.now()
  }

  /** Returns the phase of the call that is known of, unless it is this one: no advance of this phase may clear it. */
  carriedCallOf(phase: string): string | null {
    const { intent } = this.row
    return intent === null || intent.phase === phase ? null : intent.phase
  }

  /** Whether the row may say that a call was about to be made, although it was not. */
  get hasUnusedDeclaration(): boolean {
    return this.#declared !== null || this.declaresInDoubt !== null
  }

  /**
   * Returns the declaration of this phase's call, if one was committed and not used yet. The commit, or whatever came after
   * it, must not have taken a noticeable part of the time that it gives the call.
   */
  takeDeclared(
    phase: string,
    timeoutMs: number,
  ): { readonly intent: Intent; readonly sentAt: number } | null {
    const declared = this.#declared
    this.#declared = null
    if (declared?.intent.phase !== phase) return null
    return performance.now() - declared.sentAt <= timeoutMs * DECLARATION_SHARE_OF_TIME ? declared : null
  }

  /** Mirrors an advance that committed. */
  advanced(to: Advance, { nowMs, declared }: Advanced, leasedAt: number): void {
    this.#declared = declared === null ? null : { intent: declared, sentAt: leasedAt }
    const carries = to.carriedCallOf !== null
    this.update(
      {
        ...this.row,
        recoveryPoint: to.point,
        stateJson: to.stateJson ?? this.row.stateJson,
        trail: to.trail,
        nowMs,
        intent: carries ? this.row.intent : null,
        effectEpoch: carries ? this.row.effectEpoch : 0,
        attempts: 0,
        retries: 0,
        revision: this.row.revision + 1,
      },
      leasedAt,
    )
  }

  /** What every function of a phase sees. A function that changes it changes only its own copy. */
  phaseContext(stateJson = this.row.stateJson): PhaseContext<unknown, StateObject> {
    const { inputJson, scope, id } = this.row
    return {
      input: this.#inputs.of(inputJson),
      state: this.#states.of(stateJson) as StateObject,
      scope,
      keyId: id,
    }
  }

  /** The key sent to the provider for an effect. Both the call and its settlement ask for it. */
  providerKey(effectName: string): string {
    const { effectEpoch: epoch } = this.row
    const known = this.#providerKey
    if (known?.of === effectName && known.epoch === epoch) return known.key
    const key = providerKeyOf(this.engine.namespace, this.row, effectName)
    this.#providerKey = { of: effectName, epoch, key }
    return key
  }

  grantMessage(): GrantMessage {
    const { id, scope, key, pipeline, version, fence, recoveryPoint } = this.row
    const { names } = this.engine
    return {
      keyId: id,
      keyHash: names.hash(scope, key),
      scopeHash: names.hash(scope),
      pipeline,
      version,
      fence,
      recoveryPoint,
    }
  }

  phaseMessage(phase: string): PhaseMessage {
    return { ...this.grantMessage(), phase }
  }
}
