import { type Engine, type PawlChannel, subscribe } from '@pawl/core'
import { hashKeyName, lookAtKey } from '@pawl/core/internal'
import { KeyWatch, type Turn, type Waiter } from './key-watch.js'
import { MAX_WAITERS } from './limits.js'

/** After these messages, asking again about a key can give another answer. */
const NEWS = [
  'pawl:finished',
  'pawl:phase_failed',
  'pawl:stuck',
  'pawl:fenced_off',
] as const satisfies PawlChannel[]

/** The key that a request waits for. */
export interface AwaitedKey {
  readonly scope: string
  readonly key: string
}

/** A key that somebody waits for. */
interface Watched {
  readonly watch: KeyWatch
  readonly keyHash: string
  /** How many requests have a seat here, including those whose turn it is. */
  seats: number
}

const rooms = new WeakMap<object, WaitingRoom>()

/**
 * The requests of a process that wait for others with their key. Waiting takes nothing but memory: no connection, no
 * transaction, and one small question per key, however many wait for it.
 */
export class WaitingRoom {
  readonly #engine: Engine<any>
  /** By scope and key themselves: what is read for one key must never be told to those who wait for another. */
  readonly #scopes = new Map<string, Map<string, Watched>>()
  /** By what messages call the key. Should two keys share a name, one of them does without the news, and asks a little later. */
  readonly #byName = new Map<string, Watched>()
  readonly #seatsOf = new Map<string, number>()
  #seats = 0
  #isClosed = false
  #unsubscribe: (() => void)[] = []

  private constructor(engine: Engine<any>) {
    this.#engine = engine
  }

  /** There is one for each engine, whatever is registered on it. */
  static of(engine: Engine<any>): WaitingRoom {
    let room = rooms.get(engine)
    if (room === undefined) rooms.set(engine, (room = new WaitingRoom(engine)))
    return room
  }

  /** Returns null where so many of the scope wait already, or so many in all, and once the engine is closing. */
  enter(of: AwaitedKey, waitersPerScope: number): Seat | null {
    const ofScope = this.#seatsOf.get(of.scope) ?? 0
    if (this.#isClosed || ofScope >= waitersPerScope || this.#seats >= MAX_WAITERS) return null
    // Messages are built only while somebody listens, so we listen only while somebody waits.
    if (this.#seats === 0)
      this.#unsubscribe = NEWS.map((name) =>
        subscribe(name, ({ keyHash }) => this.#byName.get(keyHash)?.watch.news()),
      )
    this.#seats++
    this.#seatsOf.set(of.scope, ofScope + 1)
    const watched = this.#watched(of)
    watched.seats++
    return new Seat(watched.watch, () => this.#left(of, watched))
  }

  /** The engine is closing: whoever asks it now is told so. */
  close(): void {
    this.#isClosed = true
    for (const keys of this.#scopes.values())
      for (const { watch } of keys.values()) watch.wakeAll({ type: 'ask', found: null })
  }

  #watched({ scope, key }: AwaitedKey): Watched {
    let keys = this.#scopes.get(scope)
    if (keys === undefined) this.#scopes.set(scope, (keys = new Map()))
    let watched = keys.get(key)
    if (watched === undefined) {
      const watch = new KeyWatch(() => lookAtKey(this.#engine, scope, key))
      watched = { watch, keyHash: hashKeyName(this.#engine, scope, key), seats: 0 }
      keys.set(key, watched)
      this.#byName.set(watched.keyHash, watched)
    }
    return watched
  }

  #left({ scope, key }: AwaitedKey, watched: Watched): void {
    watched.seats--
    const keys = this.#scopes.get(scope)
    if (watched.seats === 0) {
      keys?.delete(key)
      this.#byName.delete(watched.keyHash)
    }
    if (keys?.size === 0) this.#scopes.delete(scope)
    const ofScope = (this.#seatsOf.get(scope) ?? 1) - 1
    if (ofScope === 0) this.#seatsOf.delete(scope)
    else this.#seatsOf.set(scope, ofScope)
    this.#seats--
    if (this.#seats > 0) return
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#unsubscribe = []
  }
}

/** The place of one request, which it keeps while it asks the engine, until it leaves. */
class Seat {
  readonly #watch: KeyWatch
  readonly #onLeft: () => void
  #waiter: Waiter | null = null
  #hasLeft = false

  constructor(watch: KeyWatch, onLeft: () => void) {
    this.#watch = watch
    this.#onLeft = onLeft
  }

  /** Resolves when it is this request's turn, and after `timeoutMs` at the latest. */
  async turn(timeoutMs: number, takesOver: boolean): Promise<Turn> {
    if (this.#hasLeft || timeoutMs <= 0) return OVER
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#giveUp(), timeoutMs)
      this.#waiter = {
        takesOver,
        wake: (turn) => {
          clearTimeout(timer)
          this.#waiter = null
          resolve(turn)
        },
      }
      this.#watch.add(this.#waiter)
    })
  }

  leave(): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#giveUp()
    this.#onLeft()
  }

  #giveUp(): void {
    const waiter = this.#waiter
    if (waiter === null) return
    this.#watch.remove(waiter)
    waiter.wake(OVER)
  }
}

const OVER: Turn = { type: 'over' }
