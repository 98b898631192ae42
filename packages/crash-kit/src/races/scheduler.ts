import { setTimeout as delay } from 'node:timers/promises'
import type { Trial } from '../actors/trial.js'
import { BLOCKED_POLL_MS, MAX_MOVES } from '../limits.js'
import { KitError } from '../kit-error.js'
import { SteppedActor, type Role } from './stepped-actor.js'

/**
 * Lets one actor move at a time. PostgreSQL shows which actor waits for a lock of another. The waiting actor is passed over until
 * the lock's holder has moved on. So real locks take part, and the same schedule produces the same run.
 */
export class Scheduler {
  readonly actors: readonly SteppedActor[]
  readonly #trial: Trial
  #moves = 0
  #last: SteppedActor | null = null
  #onChange: () => void = () => {}

  constructor(trial: Trial, roles: readonly Role[]) {
    this.#trial = trial
    this.actors = roles.map((role, at) => {
      const number = roles.slice(0, at).filter((other) => other === role).length + 1
      const name = number === 1 ? role : `${role} ${number}`
      return new SteppedActor(trial, role, name, () => this.#onChange())
    })
  }

  /** Moves an actor to its next position. Does nothing if it has ended, or waits for a lock. */
  async move(actor: SteppedActor): Promise<void> {
    if (actor.state === 'ended' || actor.state === 'blocked') return
    if (++this.#moves > MAX_MOVES)
      throw new KitError('PAWL_KIT_TIMEOUT', `A race did not end within ${MAX_MOVES} moves.`)
    if (this.#last !== actor) {
      this.#trial.recordNow(
        actor.name,
        actor.position === null ? 'begins' : `goes on from ${actor.position.text}`,
      )
      this.#last = actor
    }
    actor.move()
    await this.#allStopped()
  }

  /** Moves each actor to its end, in order; those that wait for a lock, when it is free. */
  async finish(): Promise<void> {
    while (this.actors.some(({ state }) => state !== 'ended')) {
      for (const actor of this.actors) {
        while (actor.state !== 'ended' && actor.state !== 'blocked') await this.move(actor)
      }
      await this.#allStopped()
    }
  }

  /** Resolves when every actor has stopped: at a position, at its end, or at a lock that another one holds. */
  async #allStopped(): Promise<void> {
    for (;;) {
      const changed = new Promise<void>((resolve) => {
        this.#onChange = resolve
      })
      const moving = this.actors.filter(({ state }) => state === 'moving')
      if (moving.length === 0) {
        if (!(await this.#unblockFreed())) return
        continue
      }
      await Promise.race([changed, delay(BLOCKED_POLL_MS)])
      for (const actor of moving) {
        if (actor.state === 'moving' && (await this.#isBlocked(actor)) && isMoving(actor))
          actor.state = 'blocked'
      }
    }
  }

  /** Lets actors move again that waited for a lock and have it now. Returns whether there were any. */
  async #unblockFreed(): Promise<boolean> {
    const blocked = this.actors.filter(({ state }) => state === 'blocked')
    let freed = false
    for (const actor of blocked) {
      if (await this.#isBlocked(actor)) continue
      if (actor.state === 'blocked') actor.state = 'moving'
      freed = true
    }
    return freed
  }

  async #isBlocked({ name }: SteppedActor): Promise<boolean> {
    const backends = await this.#trial.environment.database.backends(name)
    return backends.some(({ blockedBy }) => blockedBy.length > 0)
  }
}

/** Checked again, because the actor may have moved while PostgreSQL was asked. */
function isMoving({ state }: SteppedActor): boolean {
  return state === 'moving'
}
