import { Actor } from '../actors/actor.js'
import type { Trial } from '../actors/trial.js'
import { throwing } from '../faults/throwing.js'
import type { NamedPosition } from '../plan/named-position.js'

/** The actors that can take part in a race. */
export const ROLES = ['client', 'duplicate', 'completer', 'reaper', 'zombie', 'mismatch'] as const
export type Role = (typeof ROLES)[number]

/** How often a client comes back within one race. */
const MOST_TRIES = 3

/** Rounds of a background service within one race. */
const MOST_ROUNDS = 2

/** An actor that moves only when it is its turn, from one position of its engine to the next. */
export class SteppedActor {
  readonly role: Role
  readonly actor: Actor
  readonly trial: Trial
  state: 'waiting' | 'parked' | 'moving' | 'blocked' | 'ended' = 'waiting'
  position: NamedPosition | null = null
  readonly #changed: () => void
  #goOn: () => void = () => {}
  #throwNext = false

  /** Calls `changed` whenever its state has changed. */
  constructor(trial: Trial, role: Role, name: string, changed: () => void) {
    this.role = role
    this.trial = trial
    this.#changed = changed
    this.actor = new Actor(trial, name, {
      otherRequest: role === 'mismatch',
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
      void this.#act().finally(() => this.#become('ended'))
    } else if (this.state === 'parked') {
      this.state = 'moving'
      this.#goOn()
    }
  }

  /** Makes it meet an exception at the next position where an exception is possible. */
  throwNext(): void {
    this.#throwNext = true
    this.actor.disturbed = true
  }

  async kill(): Promise<void> {
    this.actor.die()
    this.#become('ended')
    await this.actor.close()
  }

  async #act(): Promise<void> {
    switch (this.role) {
      case 'client':
      case 'duplicate': {
        for (let tries = 0; tries < MOST_TRIES; tries++) if (await this.#isAnswered()) return
        return
      }
      case 'zombie':
      case 'mismatch':
        await this.#isAnswered()
        return
      case 'completer':
        for (let round = 0; round < MOST_ROUNDS; round++) await this.#survive(this.actor.complete())
        return
      case 'reaper':
        for (let round = 0; round < MOST_ROUNDS; round++) await this.#survive(this.actor.reap())
    }
  }

  /** A round that meets an exception may fail, and the service goes on with the next one. */
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
    // Renewals are timed, and run beside whatever the actor does.
    if (position.phase !== 'renewal') return this.#park(position)
  }

  async #park(position: NamedPosition): Promise<void> {
    this.position = position
    const going = new Promise<void>((resolve) => {
      this.#goOn = resolve
    })
    this.#become('parked')
    await going
    const { shape } = this.trial.environment
    if (this.#throwNext && throwing.appliesTo(position, shape)) {
      this.#throwNext = false
      this.trial.recordNow(this.name, `meets an exception at ${position.text}`)
      throw new Error(`injected at ${position.text}`)
    }
  }

  #become(state: SteppedActor['state']): void {
    if (this.state === 'ended') return
    this.state = state
    this.#changed()
  }
}
