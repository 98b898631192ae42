import { Actor } from '../cast/actor.js'
import type { Scene } from '../cast/scene.js'
import { throwing } from '../faults/throw.js'
import type { NamedPosition } from '../finding/position-namer.js'

/** Who can take part in a race. */
export const ROLES = ['client', 'duplicate', 'completer', 'reaper', 'zombie', 'impostor'] as const
export type Role = (typeof ROLES)[number]

/** How often a client comes back within one race. */
const MOST_TRIES = 3

/** Rounds of a background service within one race. */
const MOST_ROUNDS = 2

/** An actor that moves only when it is its turn, from one position of its engine to the next. */
export class Player {
  readonly role: Role
  readonly actor: Actor
  readonly scene: Scene
  state: 'waiting' | 'parked' | 'moving' | 'blocked' | 'ended' = 'waiting'
  position: NamedPosition | null = null
  readonly #changed: () => void
  #goOn: () => void = () => {}
  #throwNext = false

  /** `changed` is called whenever its state has. */
  constructor(scene: Scene, role: Role, name: string, changed: () => void) {
    this.role = role
    this.scene = scene
    this.#changed = changed
    this.actor = new Actor(scene, name, {
      impostor: role === 'impostor',
      at: (position) => this.#at(position),
    })
  }

  get name(): string {
    return this.actor.name
  }

  /** Lets it go on to its next position. */
  move(): void {
    if (this.state === 'waiting') {
      this.state = 'moving'
      void this.#play().finally(() => this.#become('ended'))
    } else if (this.state === 'parked') {
      this.state = 'moving'
      this.#goOn()
    }
  }

  /** It meets an exception at the next place where there can be one. */
  throwNext(): void {
    this.#throwNext = true
    this.actor.disturbed = true
  }

  async kill(): Promise<void> {
    this.actor.die()
    this.#become('ended')
    await this.actor.leave()
  }

  async #play(): Promise<void> {
    switch (this.role) {
      case 'client':
      case 'duplicate': {
        for (let tries = 0; tries < MOST_TRIES; tries++) if (await this.#isAnswered()) return
        return
      }
      case 'zombie':
      case 'impostor':
        await this.#isAnswered()
        return
      case 'completer':
        for (let round = 0; round < MOST_ROUNDS; round++) await this.#survive(this.actor.complete())
        return
      case 'reaper':
        for (let round = 0; round < MOST_ROUNDS; round++) await this.#survive(this.actor.reap())
    }
  }

  /** A round that met an exception has failed, and a service goes on with the next. */
  async #survive(round: Promise<unknown>): Promise<void> {
    try {
      await round
    } catch (error) {
      if (!this.actor.disturbed) throw error
    }
  }

  async #isAnswered(): Promise<boolean> {
    const outcome = await this.actor.execute()
    return outcome === 'died' || outcome.type === 'completed' || outcome.type === 'replayed'
  }

  #at(position: NamedPosition): void | Promise<void> {
    // Renewals come by the clock, beside whatever the actor does.
    if (position.phase !== 'renewal') return this.#park(position)
  }

  async #park(position: NamedPosition): Promise<void> {
    this.position = position
    const going = new Promise<void>((resolve) => {
      this.#goOn = resolve
    })
    this.#become('parked')
    await going
    const { shape } = this.scene.theatre
    if (this.#throwNext && throwing.appliesTo(position, shape)) {
      this.#throwNext = false
      this.scene.jot(this.name, `meets an exception at ${position.text}`)
      throw new Error(`injected at ${position.text}`)
    }
  }

  #become(state: Player['state']): void {
    if (this.state === 'ended') return
    this.state = state
    this.#changed()
  }
}
