import { announce } from '../announce/announce.js'
import { traceRound } from '../announce/tracing.js'
import { checkKnownOptions, checkTimerMs, checkWholeNumber, type OptionOwner } from '../check-option.js'
import {
  DEFAULT_COMPLETER_BATCH_SIZE,
  DEFAULT_COMPLETER_CONCURRENCY,
  DEFAULT_COMPLETER_POLL_MS,
  MAX_INT32,
} from '../limits.js'
import type { ResumeOutcome } from '../pipeline/outcome.js'
import type { Engine } from '../engine/engine.js'
import { contextOf, type EngineContext } from '../engine/engine-context.js'
import type { RunningEngine } from '../engine/running-engine.js'
import type { AtomicVersion } from '../storage/keys/forget-atomic-keys.js'
import type { DueKey, RunnableVersion } from '../storage/keys/due-keys.js'
import { tellingRights } from '../storage/schema/missing-right.js'
import type { Store } from '../storage/statement.js'
import { forgetAtomic } from './forget-atomic.js'
import { Places, placesPerScope } from './places.js'
import { RestingKeys, TriedKeys } from './resting-keys.js'
import { Sweep, type Wanting } from './sweep.js'
import { TurnQueue } from './turn-queue.js'
import { checkStopOptions, Poller, type Service, type StopOptions } from './service.js'

/** How the completer works. */
export interface CompleterOptions {
  /** The longest time between two looks. Default 1 s. */
  readonly pollMs?: number
  /** How many keys it finds at a time. Default 100. */
  readonly batchSize?: number
  /** How many keys it runs at a time. Each holds at most one connection of the pool. Default 4. */
  readonly concurrency?: number
  /**
   * How many of these may be of one scope: what they leave is there for the others, also while all requests of one scope hang.
   * Default: half of `concurrency`, rounded up.
   */
  readonly concurrencyPerScope?: number
}

/** What one round of the completer did. */
export type CompleterCounts = {
  /** Keys it found and asked for. */
  readonly found: number
  /** Ran to their response here. */
  readonly completed: number
  /** Failed, and rest until they are due again. */
  readonly retried: number
  /** Handed to a person. */
  readonly stuck: number
  /** Taken by somebody else first, or not available just now. */
  readonly passed: number
  /** Keys of atomic handlers whose client never came back: nothing had been committed, so nothing is kept. */
  readonly forgotten: number
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'createBackground: completer' }
const OPTION_NAMES = [
  'pollMs',
  'batchSize',
  'concurrency',
  'concurrencyPerScope',
] as const satisfies readonly (keyof CompleterOptions)[]

type Counting = { -readonly [Name in keyof CompleterCounts]: number }
const NOTHING: CompleterCounts = { found: 0, completed: 0, retried: 0, stuck: 0, passed: 0, forgotten: 0 }

/**
 * Finishes requests whose client never came back, and runs those that were enqueued: finds running keys that nobody
 * holds, and resumes each through the engine, with all the checks that a retry of the client would meet.
 */
export class Completer implements Service<CompleterCounts> {
  readonly #engine: RunningEngine<never>
  readonly #context: EngineContext
  readonly #batchSize: number
  readonly #places: Places
  readonly #queue: TurnQueue<DueKey>
  readonly #running = new Set<Promise<unknown>>()
  /** Begun and not ended yet: until they are taken over, they would be found again. */
  readonly #begun = new Set<string>()
  readonly #resting = new RestingKeys()
  readonly #tried = new TriedKeys()
  readonly #sweep: Sweep
  /** The last look has seen what is due in every scope. */
  #sawAll = true
  /** Keys could not even be asked for, so there is no reason to hurry. */
  #storeIsAway = false
  /** Of the rounds that go on now. */
  #stopping: AbortSignal | null = null
  readonly #ended: Counting = { ...NOTHING }
  readonly #poller: Poller
  #silence: (() => void) | null = null

  constructor(engine: Engine<never>, options: CompleterOptions = {}) {
    checkKnownOptions(OWNER, options, OPTION_NAMES)
    checkTimerMs(OWNER, 'pollMs', options.pollMs)
    checkWholeNumber(OWNER, 'batchSize', options.batchSize, 1, MAX_INT32)
    checkWholeNumber(OWNER, 'concurrency', options.concurrency, 1, MAX_INT32)
    const concurrency = options.concurrency ?? DEFAULT_COMPLETER_CONCURRENCY
    checkWholeNumber(OWNER, 'concurrencyPerScope', options.concurrencyPerScope, 1, concurrency)
    this.#context = contextOf(engine, 'createBackground')
    this.#engine = engine as RunningEngine<never>
    this.#sweep = new Sweep(runnableVersions(this.#context))
    this.#batchSize = options.batchSize ?? DEFAULT_COMPLETER_BATCH_SIZE
    this.#places = new Places(concurrency, options.concurrencyPerScope ?? placesPerScope(concurrency))
    // Scopes that hold all their places are in it as well, and others need room beside them.
    this.#queue = new TurnQueue(Math.max(this.#batchSize, 2 * concurrency))
    this.#poller = new Poller({
      service: 'completer',
      tracing: this.#context.tracing,
      pollMs: options.pollMs ?? DEFAULT_COMPLETER_POLL_MS,
      underWay: this.#running,
      round: async (stopping) => {
        this.#storeIsAway = false
        this.#stopping = stopping
        const lookAgain = await this.#round()
        // What ended since the last round, whichever round began it.
        const counts = { ...this.#ended }
        Object.assign(this.#ended, NOTHING)
        return { counts, more: lookAgain }
      },
    })
  }

  start(): void {
    this.#silence ??= this.#context.enqueued.listen(() => this.#poller.wake())
    this.#poller.start()
  }

  async stop(options: StopOptions = {}): Promise<void> {
    checkStopOptions(options)
    this.#silence?.()
    this.#silence = null
    this.#queue.clear()
    await this.#poller.stop(options)
  }

  /** It waits for what it begins, and keeps a queue of its own. */
  async runOnce(): Promise<CompleterCounts> {
    return traceRound(this.#context.tracing, 'completer', () => this.#runOnce())
  }

  async #runOnce(): Promise<CompleterCounts> {
    const counts = { ...NOTHING }
    const begun: Promise<void>[] = []
    if (this.#context.stopping.aborted) return counts
    const queue = new TurnQueue<DueKey>(this.#batchSize)
    await this.#look(queue, counts)
    while (queue.size > 0) {
      const key = queue.take((scope) => this.#places.isFreeFor(scope))
      if (key === null) await Promise.race(this.#running)
      else begun.push(this.#complete(key, counts))
    }
    await Promise.all(begun)
    return counts
  }

  /**
   * Finds keys, and begins as many as there are places for. It does not wait for them: a key that hangs holds its own place and
   * no other, and further looks find what others have. Returns whether to look again at once.
   */
  async #round(): Promise<boolean> {
    if (this.#isOver()) return false
    this.#sawAll = await this.#look(this.#queue, this.#ended)
    this.#fill()
    return !this.#sawAll && !this.#storeIsAway && !this.#isOver() && this.#places.free > 0
  }

  /** The scopes take turns. */
  #fill(): void {
    while (!this.#isOver()) {
      const key = this.#queue.take((scope) => this.#places.isFreeFor(scope))
      if (key === null) return
      void this.#complete(key, this.#ended, () => this.#placeIsFree())
    }
  }

  /** Fills it, and looks for more if there was nothing left in the queue to fill it with. */
  #placeIsFree(): void {
    if (this.#storeIsAway) {
      // The next round finds them again.
      this.#queue.clear()
      return
    }
    this.#fill()
    if (this.#places.free > 0 && (!this.#sawAll || this.#queue.isUsedUp)) this.#poller.wake()
  }

  #isOver(): boolean {
    return this.#stopping?.aborted === true || this.#context.stopping.aborted
  }

  /** Returns whether that was all that is due. */
  async #look(queue: TurnQueue<DueKey>, counts: Counting): Promise<boolean> {
    const places = this.#places
    const resting = this.#resting.ids()
    const isWanted = ({ id }: DueKey): boolean => !resting.has(id) && !this.#begun.has(id) && !queue.has(id)
    const isFree = (scope: string): boolean => places.isFreeFor(scope)
    const again: DueKey[] = []
    queue.forgetDropped()
    const sawAll = await tellingRights(this.#context, () =>
      this.#find(counts, {
        offer: (keys) => {
          const wanted = keys.filter(isWanted)
          queue.offer(wanted.filter(({ id }) => !this.#tried.has(id)))
          again.push(...wanted.filter(({ id }) => this.#tried.has(id)))
        },
        // More scopes than there are places for, so that none of them has two turns in a row.
        isEnough: () => queue.countFree(isFree) > places.free,
        isFullFor: (scope) => queue.isFullFor(scope),
      }),
    )
    // After those of their scope that have not had their turn.
    queue.offer(this.#tried.inOrder(again))
    return sawAll
  }

  async #find(counts: Counting, wanting: Wanting): Promise<boolean> {
    const { sessions, tables, atomicPipelines } = this.#context
    return sessions.with('completer', async (session) => {
      const store = { session, tables }
      if (atomicPipelines.size > 0) {
        const versions = [...atomicPipelines.values()].map(({ definition, forgetAfterMs, leaseBoundMs }) => {
          const { name: pipeline, version, hash: definitionHash } = definition
          return { pipeline, version, definitionHash, forgetAfterMs, leaseBoundMs }
        })
        counts.forgotten += await this.#forget(store, versions)
      }
      return this.#sweep.look(store, wanting)
    })
  }

  /** A row of the application that refers to such a key must not keep the others from being finished. */
  async #forget(store: Store, versions: readonly AtomicVersion[]): Promise<number> {
    try {
      return await forgetAtomic(store, versions, this.#batchSize)
    } catch (error) {
      announce('pawl:warning', () => ({
        message: 'unattended keys of atomic handlers could not be deleted',
        error,
      }))
      return 0
    }
  }

  #complete(key: DueKey, counts: Counting, whenFree: () => void = () => {}): Promise<void> {
    counts.found++
    const work = this.#resume(key, counts).finally(() => {
      this.#tried.add(key.id)
      this.#running.delete(work)
      this.#begun.delete(key.id)
      this.#places.giveBack(key.scope)
      whenFree()
    })
    this.#running.add(work)
    this.#begun.add(key.id)
    this.#places.take(key.scope)
    return work
  }

  async #resume(key: DueKey, counts: Counting): Promise<void> {
    try {
      this.#count(key.id, await this.#engine.resumeDue(key), counts)
    } catch (error) {
      counts.passed++
      this.#storeIsAway = true
      this.#resting.add(key.id)
      announce('pawl:round_failed', () => ({ service: 'completer', error, failures: 1 }))
    }
  }

  #count(keyId: string, outcome: ResumeOutcome, counts: Counting): void {
    switch (outcome.type) {
      case 'completed':
        counts.completed++
        return
      case 'retry_later':
        counts.retried++
        return
      case 'stuck':
        counts.stuck++
        return
      case 'replayed':
      case 'gone':
        counts.passed++
        return
      case 'unavailable':
        this.#storeIsAway = true
        counts.passed++
        this.#resting.add(keyId)
        return
      case 'in_flight':
      case 'refused':
        // The row does not show this, so the key would be found again at once.
        counts.passed++
        this.#resting.add(keyId)
    }
  }
}

/** Everything that may run here, and nothing else: a version that is not known here is not even looked at. */
function runnableVersions({ registry, settings }: EngineContext): RunnableVersion[] {
  return registry.definitions.flatMap((definition) => {
    const { name: pipeline, version, hash: definitionHash, upgradesFrom } = definition
    const leaseBoundMs = settings.leaseBoundMs(definition)
    return [
      { pipeline, version, definitionHash, leaseBoundMs },
      ...upgradesFrom.map((from) => ({
        pipeline,
        version: from.version,
        definitionHash: null,
        leaseBoundMs,
      })),
    ]
  })
}
