import type { PipelineSettings } from '@pawl/core'
import { setTimeout as pause } from 'node:timers/promises'
import type { Violation } from '../../packages/crash-kit/src/history.js'
import type { Decide } from './protocol-proxy.js'
import type { RandomNumbers } from './random-numbers.js'
import type { WireRequest } from './wire-request.js'
import { LEASE_MS, type PlainEngine, type WireTrial } from './wire-trial.js'

/** Who takes part in a race for one key. */
const ROLES = ['client', 'duplicate', 'zombie', 'completer', 'reaper'] as const
type Role = (typeof ROLES)[number]

/** A message that waits for its turn. */
interface Waiting {
  readonly role: Role
  readonly go: () => void
}

/** How many messages pass, on average, before the lease is made to end once, whoever holds it. */
const EXPIRE_ONE_IN = 25

/** One message in this many is cut instead of passed on. */
const CUT_ONE_IN = 60

/** How many messages of others pass, at most, while the zombie's next one waits. */
const ZOMBIE_SLEEPS = 40

/** The pause between two turns: long enough for whoever was let go to reach its next message. */
const TURN_MS = 1

/** How long clients ask: several leases. */
const CLIENT_ASKS_MS = 4 * LEASE_MS

/**
 * Everybody wants one key at once. Each has its own plain engine, whose every round trip is held before it reaches the
 * server until its turn comes. The random numbers choose the order.
 */
export class Race {
  readonly #random: RandomNumbers
  readonly #waiting: Waiting[] = []
  #turns = 0
  #zombieWakesAt = 0
  cut = 0
  expired = 0

  constructor(random: RandomNumbers) {
    this.#random = random
  }

  get turns(): number {
    return this.#turns
  }

  async run<DB, Input>(
    trial: WireTrial,
    request: WireRequest<DB, Input>,
    defaults: PipelineSettings,
  ): Promise<Violation[]> {
    const { pipeline } = request
    const proxies = await Promise.all(ROLES.map(() => trial.proxy()))
    const engines = ROLES.map((role, at) => {
      const proxy = proxies[at]
      if (proxy === undefined) throw new Error('each role has a proxy')
      proxy.decide = this.#decideFor(role)
      return trial.engine<DB>(role, proxy, { pipelines: [pipeline], defaults })
    })
    const playing = Promise.all(
      ROLES.map((role, at) => this.#play(trial, role, engines[at] as PlainEngine<DB>, request)),
    )
    const race = { isOver: false }
    const ended = playing.finally(() => {
      race.isOver = true
    })
    while (!race.isOver) {
      await this.#turn(trial, request)
      await pause(TURN_MS)
    }
    for (const proxy of proxies) proxy.decide = null
    await ended
    const left = await Promise.all(engines.map((each) => trial.leave(each)))
    await Promise.all(proxies.map((proxy) => proxy.close()))
    return left.flat()
  }

  async #play<DB, Input>(
    trial: WireTrial,
    role: Role,
    by: PlainEngine<DB>,
    request: WireRequest<DB, Input>,
  ): Promise<void> {
    switch (role) {
      case 'client':
      case 'duplicate':
        await request.askUntilOver(by, CLIENT_ASKS_MS)
        return
      case 'zombie':
        await request.ask(by)
        return
      case 'completer':
      case 'reaper': {
        const background = trial.core.createBackground({ engine: by.engine, reaper: { pauseMs: 0 } })
        // A round that lost its connection fails, and a service goes on with the next.
        const service = role === 'completer' ? background.completer : background.reaper
        for (let round = 0; round < 3; round++) await service?.runOnce().catch(() => {})
      }
    }
  }

  /** Holds the first message of every round trip. */
  #decideFor(role: Role): Decide {
    const begun = new Map<number, number>()
    return ({ connection, from, roundTrip }) => {
      if (from === 'server' || begun.get(connection) === roundTrip) return 'pass'
      begun.set(connection, roundTrip)
      if (this.#random.oneIn(CUT_ONE_IN)) {
        this.cut++
        return { cut: 'both', when: 'before' }
      }
      return { hold: new Promise<void>((go) => this.#waiting.push({ role, go })) }
    }
  }

  async #turn<DB, Input>(trial: WireTrial, { scope, key }: WireRequest<DB, Input>): Promise<void> {
    const awake = this.#waiting.filter(({ role }) => role !== 'zombie' || this.#turns >= this.#zombieWakesAt)
    // The zombie goes on if nobody else is left to wait for.
    const next = awake[this.#random.below(awake.length)] ?? this.#waiting[0]
    if (next === undefined) return
    this.#turns++
    this.#waiting.splice(this.#waiting.indexOf(next), 1)
    if (next.role === 'zombie') this.#zombieWakesAt = this.#turns + this.#random.below(ZOMBIE_SLEEPS)
    if (this.#random.oneIn(EXPIRE_ONE_IN)) {
      this.expired++
      await trial.database.expireLease(scope, key)
    }
    next.go()
  }
}
