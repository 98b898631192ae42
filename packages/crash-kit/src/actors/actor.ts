import {
  createBackground,
  deliverEach,
  type Engine,
  type Outcome,
  type PhaseSettings,
  type Pipeline,
} from '@pawl/core'
import { createProbedEngine, learnCache, type Position } from '@pawl/core/internal'
import { type NamedPosition, positionNamer } from '../plan/named-position.js'
import { timelineText } from './timeline-text.js'
import type { ActorPool } from './pools.js'
import { instrumentPipeline } from './instrument-pipeline.js'
import type { Trial } from './trial.js'
import { withSkewedClock } from './with-skewed-clock.js'

/** The fingerprint of another request under the same key. */
const OTHER_REQUEST = 'another request under the same key'

/** What somebody else who has learnt the key is bound to. */
const OTHER_BINDING = 'another binding of the same key'

export interface ActorOptions {
  /** Called at every position of its engine, which stops there only if this returns a promise. */
  readonly at?: (position: NamedPosition) => Promise<void> | void
  readonly settings?: Readonly<Record<string, PhaseSettings>>
  /** Override the settings of its engine. */
  readonly engineSettings?: PhaseSettings
  readonly lock?: { readonly phase: string; readonly id: number } | null
  /** The very pipeline of another actor, with everything that it keeps in memory. Default: a new one. */
  readonly source?: Pipeline<never, never>
  /** Replaces the pipeline, for example by one of another version. */
  readonly pipeline?: (pipeline: Pipeline<never, never>) => Pipeline<never, never>
  /** Whether it sends another request under the key. */
  readonly otherRequest?: boolean
  /** Whether it sends the same request, bound to something else. */
  readonly otherBinding?: boolean
  /** How far its machine's clock is off. */
  readonly skewMs?: number
  /** Whether it may get an outcome that says that something was unavailable. */
  readonly disturbed?: boolean
  /** A key other than the trial's, for somebody else's request. */
  readonly key?: string
}

/** Someone who acts on the key: an engine with connections of its own, like those of a process. */
export class Actor {
  readonly name: string
  readonly trial: Trial
  /** The pipeline as the user wrote it. */
  readonly source: Pipeline<never, never>
  readonly died: Promise<'died'>
  readonly #engine: Engine<never> & { halt(): void }
  readonly #pipeline: Pipeline<never, never>
  readonly #options: ActorOptions
  readonly #connections: ActorPool
  #execution = 0
  #dead = false
  #onDied: () => void = () => {}
  /** A fault has struck it. */
  disturbed: boolean

  constructor(trial: Trial, name: string, options: ActorOptions = {}) {
    const { environment } = trial
    this.trial = trial
    this.name = name
    this.#options = options
    this.disturbed = options.disturbed ?? false
    this.#connections = environment.pools.of(name)
    this.died = new Promise((resolve) => {
      this.#onDied = () => resolve('died')
    })
    this.source = options.source ?? environment.pipeline()
    const watched = instrumentPipeline(this.source, {
      enter: ({ phase, kind, idempotencyKey }) => {
        const execution = this.#execution
        if (kind !== 'transaction' && idempotencyKey !== null && options.key === undefined)
          trial.calls.push({ tick: trial.tick(), actor: name, execution, phase, kind, idempotencyKey })
        return trial.enter({ actor: name, execution, phase, kind, idempotencyKey })
      },
      notAwaited: (phase, what) => trial.notAwaited(name, phase, what),
      settings: options.settings ?? {},
      lock: options.lock ?? null,
    })
    this.#pipeline = options.pipeline?.(watched) ?? watched
    const nameOf = positionNamer()
    this.#engine = createProbedEngine<never>(
      {
        ...environment.engine,
        pool: this.#connections.pool,
        pipelines: [this.#pipeline],
        schema: environment.database.pawlSchema,
        strict: environment.engine.strict ?? true,
        defaults: { ...environment.engine.defaults, ...options.engineSettings },
      },
      (position: Position) => this.#at(nameOf(position)),
      // An actor lives for one request, so statements are prepared at their first use, not at their fifth.
      { prepareAfterUses: 1 },
    )
  }

  get pool() {
    return this.#connections.pool
  }

  get wire() {
    return this.#connections.wire
  }

  /** Sends the request. Resolves to 'died' if it dies before it gets the outcome. */
  async execute(): Promise<Outcome | 'died'> {
    const { trial } = this
    const { otherRequest = false, otherBinding = false, skewMs = 0, key = trial.key } = this.#options
    const { scope, input, fingerprint, bindTo } = trial.environment.request
    const execution = trial.nextExecution()
    this.#execution = execution
    const lostBefore = trial.lost.length
    const asked = otherRequest ? OTHER_REQUEST : fingerprint
    const request = {
      scope,
      key,
      input: input as never,
      ...(asked === undefined ? {} : { fingerprint: asked }),
      ...(bindTo === undefined ? {} : { bindTo: otherBinding ? OTHER_BINDING : bindTo }),
    }
    const send = async (): Promise<Outcome> => {
      // An actor lives for one request, which would be over before its engine knew how to use the cache.
      if (trial.environment.engine.cache !== undefined) await learnCache(this.#engine)
      return withSkewedClock(skewMs, () => this.#engine.execute(this.#pipeline, request))
    }
    const outcome = await Promise.race([send(), this.died])
    if (outcome === 'died') return outcome
    if (key === trial.key) {
      const returned = {
        actor: this.name,
        execution,
        outcome,
        disturbed: this.disturbed,
        otherRequest: otherRequest || otherBinding,
      }
      await trial.recordOutcome(returned, trial.lost.slice(lostBefore))
    }
    return outcome
  }

  /** Runs one round of the completer. */
  async complete(): Promise<'ended' | 'died'> {
    this.#execution = this.trial.nextExecution()
    const { completer } = createBackground({ engine: this.#engine, reaper: false })
    try {
      await Promise.race([completer?.runOnce(), this.died])
    } catch (error) {
      // A round that a fault strikes may fail, and the service goes on with the next one.
      if (!this.disturbed) throw error
    }
    return this.#dead ? 'died' : 'ended'
  }

  /** Runs one round of the reaper. */
  async reap(): Promise<'ended' | 'died'> {
    const reaper = { pauseMs: 0 }
    const background = createBackground({ engine: this.#engine, completer: false, reaper })
    await Promise.race([background.reaper?.runOnce(), this.died])
    return this.#dead ? 'died' : 'ended'
  }

  /** Erases what it can of the trial's scope, however recent it is. */
  async erase(): Promise<void> {
    const { scope } = this.trial
    const reason = 'a case of the crash kit'
    await this.#engine.erase({ scope, actor: 'eraser', reason, recentEffects: true })
    await this.trial.record(this.name, 'erases what it can of the scope')
  }

  /** Hands all staged jobs over. */
  async relay(): Promise<void> {
    const { trial } = this
    const sink = deliverEach(async ({ id, name }) => {
      trial.deliveries.push({ tick: trial.tick(), id, name })
    })
    const { relays } = createBackground({
      engine: this.#engine,
      completer: false,
      reaper: false,
      relay: { sink },
    })
    for (const relay of relays) while ((await relay.runOnce()).claimed > 0);
  }

  /** From here on, nothing of it runs: no catch, no finally, no renewal. Its connections are cut. */
  die(): void {
    if (this.#dead) return
    this.#dead = true
    this.#engine.halt()
    this.trial.closeWindows(this.name)
    this.trial.environment.pools.discard(this.name)
    this.#onDied()
  }

  /** Closes its engine, or waits for its connections to be gone if it is dead. Open connections stay for the next of its name. */
  async close(): Promise<void> {
    if (this.#dead) await this.trial.environment.database.backendsGone(this.name)
    else await this.#engine.close()
  }

  /** Returns synchronously unless something strikes, so that the engine runs like one that is not observed. */
  #at(position: NamedPosition): void | Promise<void> {
    if (this.#dead) return forever()
    const stopped = this.#options.at?.(position)
    if (stopped !== undefined) return this.#stopped(stopped, position)
    if (this.#dead) return forever()
    const noted = this.#record(position)
    if (noted !== undefined) return this.#stopped(noted, null)
  }

  async #stopped(until: Promise<void>, position: NamedPosition | null): Promise<void> {
    await until
    if (this.#dead) return forever()
    if (position !== null) await this.#record(position)
    // It may have died while the row was read.
    return this.#dead ? forever() : undefined
  }

  /** Returns a promise only if the timeline is to show the row as it is now. */
  #record(position: NamedPosition): void | Promise<void> {
    const said = timelineText(position)
    if (said === null) return
    if (this.trial.verbose) return this.trial.record(this.name, said)
    this.trial.recordNow(this.name, said)
  }
}

function forever(): Promise<never> {
  return new Promise(() => {})
}
