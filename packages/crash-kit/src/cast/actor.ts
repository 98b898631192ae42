import {
  createBackground,
  deliverEach,
  type Engine,
  type Outcome,
  type PhaseSettings,
  type Pipeline,
} from '@pawl/core'
import { createProbedEngine, type Position } from '@pawl/core/internal'
import { type NamedPosition, positionNamer } from '../finding/position-namer.js'
import { sayPosition } from '../finding/say-position.js'
import type { ActorPool } from './pools.js'
import { rehearse } from './rehearse.js'
import type { Scene } from './scene.js'
import { skewed } from './skew.js'

/** Sent under the same key, and not the same request. */
const OTHER_REQUEST = 'another request under the same key'

export interface ActorOptions {
  /** Called at every position of its engine, which stops there only if a promise comes back. */
  readonly at?: (position: NamedPosition) => Promise<void> | void
  readonly settings?: Readonly<Record<string, PhaseSettings>>
  /** In place of those of the engine's own that it is given. */
  readonly engineSettings?: PhaseSettings
  readonly lock?: { readonly phase: string; readonly id: number } | null
  /** The very pipeline of another actor, with all that it keeps in memory. Default: one made anew. */
  readonly source?: Pipeline<never, never>
  /** Exchanges the pipeline, such as for one of another version. */
  readonly pipeline?: (pipeline: Pipeline<never, never>) => Pipeline<never, never>
  /** Sends another request under the key. */
  readonly impostor?: boolean
  /** How far its machine's clock is off. */
  readonly skewMs?: number
  /** Whether it may be told that something was away. */
  readonly disturbed?: boolean
  /** Another key than the scene's: somebody else's request. */
  readonly key?: string
}

/** Somebody who acts on the key: an engine of its own with connections of its own, as a process would have. */
export class Actor {
  readonly name: string
  readonly scene: Scene
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

  constructor(scene: Scene, name: string, options: ActorOptions = {}) {
    const { theatre } = scene
    this.scene = scene
    this.name = name
    this.#options = options
    this.disturbed = options.disturbed ?? false
    this.#connections = theatre.pools.of(name)
    this.died = new Promise((resolve) => {
      this.#onDied = () => resolve('died')
    })
    this.source = options.source ?? theatre.pipeline()
    const watched = rehearse(this.source, {
      enter: ({ phase, kind, idempotencyKey }) => {
        const execution = this.#execution
        if (kind !== 'transaction' && idempotencyKey !== null && options.key === undefined)
          scene.calls.push({ tick: scene.tick(), actor: name, execution, phase, kind, idempotencyKey })
        return scene.enter({ actor: name, execution, phase, kind, idempotencyKey })
      },
      notAwaited: (phase, what) => scene.notAwaited(name, phase, what),
      settings: options.settings ?? {},
      lock: options.lock ?? null,
    })
    this.#pipeline = options.pipeline?.(watched) ?? watched
    const nameOf = positionNamer()
    this.#engine = createProbedEngine<never>(
      {
        ...theatre.engine,
        pool: this.#connections.pool,
        pipelines: [this.#pipeline],
        schema: theatre.database.pawlSchema,
        strict: theatre.engine.strict ?? true,
        defaults: { ...theatre.engine.defaults, ...options.engineSettings },
      },
      (position: Position) => this.#at(nameOf(position)),
      // An actor lives for one request: the first use has to be as good as the fifth.
      { prepareAfterUses: 1 },
    )
  }

  get pool() {
    return this.#connections.pool
  }

  get wire() {
    return this.#connections.wire
  }

  /** Sends the request. Resolves with 'died' if it does not live to see the outcome. */
  async execute(): Promise<Outcome | 'died'> {
    const { scene } = this
    const { impostor = false, skewMs = 0, key = scene.key } = this.#options
    const { scope, input, fingerprint } = scene.theatre.request
    const execution = scene.nextExecution()
    this.#execution = execution
    const lostBefore = scene.lost.length
    const asked = impostor ? OTHER_REQUEST : fingerprint
    const request = {
      scope,
      key,
      input: input as never,
      ...(asked === undefined ? {} : { fingerprint: asked }),
    }
    const outcome = await Promise.race([
      skewed(skewMs, () => this.#engine.execute(this.#pipeline, request)),
      this.died,
    ])
    if (outcome === 'died') return outcome
    if (key === scene.key) {
      const told = { actor: this.name, execution, outcome, disturbed: this.disturbed, impostor }
      await scene.tell(told, scene.lost.slice(lostBefore))
    }
    return outcome
  }

  /** One round of the completer. */
  async complete(): Promise<'ended' | 'died'> {
    this.#execution = this.scene.nextExecution()
    const { completer } = createBackground({ engine: this.#engine, reaper: false })
    try {
      await Promise.race([completer?.runOnce(), this.died])
    } catch (error) {
      // A round that a fault has struck fails, and a service goes on with the next.
      if (!this.disturbed) throw error
    }
    return this.#dead ? 'died' : 'ended'
  }

  /** One round of the reaper. */
  async reap(): Promise<'ended' | 'died'> {
    const reaper = { pauseMs: 0 }
    const background = createBackground({ engine: this.#engine, completer: false, reaper })
    await Promise.race([background.reaper?.runOnce(), this.died])
    return this.#dead ? 'died' : 'ended'
  }

  /** Hands all staged jobs over. */
  async relay(): Promise<void> {
    const { scene } = this
    const sink = deliverEach(async ({ id, name }) => {
      scene.deliveries.push({ tick: scene.tick(), id, name })
    })
    const { relays } = createBackground({
      engine: this.#engine,
      completer: false,
      reaper: false,
      relay: { sink },
    })
    for (const relay of relays) while ((await relay.runOnce()).claimed > 0);
  }

  /** From here on nothing of it runs: no catch, no finally, no renewal, and its connections are cut. */
  die(): void {
    if (this.#dead) return
    this.#dead = true
    this.#engine.halt()
    this.scene.leaveAll(this.name)
    this.scene.theatre.pools.abandon(this.name)
    this.#onDied()
  }

  /** Ends an engine that lives. Its connections stay for the next of its name. */
  async leave(): Promise<void> {
    if (this.#dead) await this.scene.theatre.database.backendsGone(this.name)
    else await this.#engine.close()
  }

  /** Returns at once wherever nothing strikes, so that the engine runs as one that nobody watches. */
  #at(position: NamedPosition): void | Promise<void> {
    if (this.#dead) return forever()
    const stopped = this.#options.at?.(position)
    if (stopped !== undefined) return this.#stopped(stopped, position)
    if (this.#dead) return forever()
    const noted = this.#say(position)
    if (noted !== undefined) return this.#stopped(noted, null)
  }

  async #stopped(until: Promise<void>, position: NamedPosition | null): Promise<void> {
    await until
    if (this.#dead) return forever()
    if (position !== null) await this.#say(position)
    // It may have died while the row was read.
    return this.#dead ? forever() : undefined
  }

  /** A promise only where the timeline is to show the row as it is now. */
  #say(position: NamedPosition): void | Promise<void> {
    const said = sayPosition(position)
    if (said === null) return
    if (this.scene.verbose) return this.scene.note(this.name, said)
    this.scene.jot(this.name, said)
  }
}

function forever(): Promise<never> {
  return new Promise(() => {})
}
