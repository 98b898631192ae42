import { setTimeout as delay } from 'node:timers/promises'
import type { Scene } from '../cast/scene.js'
import { BLOCKED_POLL_MS, MAX_MOVES } from '../limits.js'
import { KitError } from '../kit-error.js'
import { Player, type Role } from './player.js'

/**
 * Lets one actor move at a time. An actor that waits for a lock of another is seen through PostgreSQL and passed over,
 * until whoever has the lock was moved on: so real locks take part, and the same schedule gives the same run.
 */
export class Director {
  readonly players: readonly Player[]
  readonly #scene: Scene
  #moves = 0
  #last: Player | null = null
  #onChange: () => void = () => {}

  constructor(scene: Scene, roles: readonly Role[]) {
    this.#scene = scene
    this.players = roles.map((role, at) => {
      const number = roles.slice(0, at).filter((other) => other === role).length + 1
      const name = number === 1 ? role : `${role} ${number}`
      return new Player(scene, role, name, () => this.#onChange())
    })
  }

  /** Moves an actor on by one position. Does nothing with one that has ended, or that waits for a lock. */
  async move(player: Player): Promise<void> {
    if (player.state === 'ended' || player.state === 'blocked') return
    if (++this.#moves > MAX_MOVES)
      throw new KitError('PAWL_KIT_TIMEOUT', `A race did not end within ${MAX_MOVES} moves.`)
    if (this.#last !== player) {
      this.#scene.jot(
        player.name,
        player.position === null ? 'begins' : `goes on from ${player.position.text}`,
      )
      this.#last = player
    }
    player.move()
    await this.#settled()
  }

  /** Moves each on to its end, in their order; those that wait for a lock when it is free. */
  async finish(): Promise<void> {
    while (this.players.some(({ state }) => state !== 'ended')) {
      for (const player of this.players) {
        while (player.state !== 'ended' && player.state !== 'blocked') await this.move(player)
      }
      await this.#settled()
    }
  }

  /** Resolves when everybody stands: at a position, at its end, or at a lock that another holds. */
  async #settled(): Promise<void> {
    for (;;) {
      const changed = new Promise<void>((resolve) => {
        this.#onChange = resolve
      })
      const moving = this.players.filter(({ state }) => state === 'moving')
      if (moving.length === 0) {
        if (!(await this.#freeOneWasBlocked())) return
        continue
      }
      await Promise.race([changed, delay(BLOCKED_POLL_MS)])
      for (const player of moving) {
        if (player.state === 'moving' && (await this.#isBlocked(player)) && isMoving(player))
          player.state = 'blocked'
      }
    }
  }

  /** Whether somebody who waited for a lock has it now: then it moves again. */
  async #freeOneWasBlocked(): Promise<boolean> {
    const blocked = this.players.filter(({ state }) => state === 'blocked')
    let freed = false
    for (const player of blocked) {
      if (await this.#isBlocked(player)) continue
      if (player.state === 'blocked') player.state = 'moving'
      freed = true
    }
    return freed
  }

  async #isBlocked({ name }: Player): Promise<boolean> {
    const backends = await this.#scene.theatre.database.backends(name)
    return backends.some(({ blockedBy }) => blockedBy.length > 0)
  }
}

/** Asked once more, because it may have moved while PostgreSQL was asked. */
function isMoving({ state }: Player): boolean {
  return state === 'moving'
}
