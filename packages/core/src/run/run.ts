import type { PhaseContext, StateObject } from '../pipeline/phase.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { GrantMessage, PhaseMessage } from '../announce/announce.js'
import { providerKeyOf } from './provider-key.js'
import type { Session } from '../driver/session.js'
import type { Hold } from '../storage/keys/hold.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { RunContext } from './run-context.js'
import { JsonCopies } from './json-copies.js'

/** A key that is ours to run. */
export interface Grant {
  readonly how: 'reserved' | 'taken_over'
  readonly row: KeyRow
  readonly definition: PipelineDefinition
  /** On this process's monotonic clock, before the grant was asked for: the lease ends no later than from here. */
  readonly askedAt: number
  /** What it was asked for on: to go on with, or to be released. */
  readonly session: Session
}

/** One grant of a key, until there is a response, the key is given back, or it is lost. `row` mirrors what is stored. */
export class Run {
  readonly engine: RunContext
  readonly definition: PipelineDefinition
  row: KeyRow
  /** On the monotonic clock: before the statement was sent that last set the lease. */
  leasedAt: number
  /** The phase that it has come to, for messages. */
  phase: string
  /** The recovery point at which a stale lease was renewed, if it was. */
  renewedAt: string | null = null
  /** On the monotonic clock: when the call that this grant has declared must have ended. */
  callEndsAt = Infinity
  /** Jobs were written to `staged_jobs` since the relay was last told. */
  hasStaged = false
  /** Whether it was accepted a while ago, has not begun, and nobody has asked yet whether it still may. */
  awaitsAuthorization: boolean
  #session: Session | null
  /** What the last call threw, whose outcome is not known; null where it was a crash that left it open. */
  callError: unknown = null
  /** The phases whose call has an unknown outcome, and that this run has gone on from. */
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

  /** Resolves when this run has written its last. */
  get ended(): Promise<void> {
    return this.#hasEnded ? Promise.resolve() : new Promise((resolve) => this.#onEnd.push(resolve))
  }

  end(): void {
    this.#hasEnded = true
    for (const tell of this.#onEnd) tell()
  }

  /** A session for a phase: the one that was kept, where one was. */
  async session(phase: string): Promise<Session> {
    const kept = this.#session
    this.#session = null
    if (kept?.enter(phase) === true) return kept
    kept?.release()
    return this.engine.sessions.acquire(phase)
  }

  /** For the transaction that follows, where one follows at once; if not, it is given back. */
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
   * Whether so much of the lease has passed that it may be over: the process was frozen, or waited long. True at most
   * until it is renewed once in a phase, or a database that answers slower than that would be asked for ever.
   */
  get leaseIsStale(): boolean {
    return this.renewedAt !== this.row.recoveryPoint && performance.now() - this.leasedAt > this.leaseMs / 2
  }

  get leaseIsOver(): boolean {
    return performance.now() - this.leasedAt >= this.leaseMs
  }

  /** The database's clock: what it said last, and the time since on a clock that nobody sets. */
  nowMs(): number {
    return this.row.nowMs + (performance.now() - this.#readAt)
  }

  /** Applies what a statement returned to the row we keep in memory. `leasedAt`: when it was sent, if it set the lease. */
  update(row: KeyRow, leasedAt: number): void {
    this.row = row
    this.leasedAt = leasedAt
    this.#readAt = performance.now()
  }

  /** The phase of a call that is known of, where it is another than this one: no advance of this one may clear it. */
  carriedCallOf(phase: string): string | null {
    const { intent } = this.row
    return intent === null || intent.phase === phase ? null : intent.phase
  }

  /** Mirrors an advance that committed. */
  advanced(
    point: string,
    stateJson: string,
    nowMs: number,
    leasedAt: number,
    { skipped = false, outcomeUnknown = false } = {},
  ): void {
    const { fence } = this.row
    const trail = [...this.row.trail, { point, atMs: nowMs, fence, skipped, outcomeUnknown }]
    const carries = this.carriedCallOf(point) !== null
    this.update(
      {
        ...this.row,
        recoveryPoint: point,
        stateJson,
        trail,
        nowMs,
        intent: carries ? this.row.intent : null,
        effectEpoch: carries ? this.row.effectEpoch : 0,
        attempts: 0,
        retries: 0,
      },
      leasedAt,
    )
  }

  /** What every function of a phase sees. One that changes it changes its own copy. */
  phaseContext(): PhaseContext<unknown, StateObject> {
    const { inputJson, stateJson, scope, id } = this.row
    return {
      input: this.#inputs.of(inputJson),
      state: this.#states.of(stateJson) as StateObject,
      scope,
      keyId: id,
    }
  }

  /** The key that the provider is sent for an effect: asked for by the call, and by its settlement. */
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
