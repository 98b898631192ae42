import { announce } from '../announce/announce.js'
import { checkKnownOptions, checkTimerMs, checkWholeNumber, type OptionOwner } from '../check-option.js'
import {
  DEFAULT_COMPLETER_BATCH_SIZE,
  DEFAULT_COMPLETER_CONCURRENCY,
  DEFAULT_COMPLETER_POLL_MS,
  MAX_INT32,
  MAX_RESTING_KEYS,
} from '../limits.js'
import type { ResumeOutcome } from '../pipeline/outcome.js'
import { backOffMs } from '../run/back-off.js'
import type { Engine } from '../engine/engine.js'
import { contextOf, type EngineContext } from '../engine/engine-context.js'
import type { RunningEngine } from '../engine/running-engine.js'
import type { AtomicVersion } from '../storage/keys/forget-atomic-keys.js'
import type { DueKey, RunnableVersion } from '../storage/keys/due-keys.js'
import { tellingRights } from '../storage/schema/missing-right.js'
import type { Store } from '../storage/statement.js'
import { forgetAtomic } from './forget-atomic.js'
import { Sweep } from './sweep.js'
import { checkStopOptions, Poller, type Service, type StopOptions } from './service.js'

/** How the completer works. */
export interface CompleterOptions {
  /** The longest time between two looks. Default 1 s. */
  readonly pollMs?: number
  /** How many keys it finds at a time. Default 100. */
  readonly batchSize?: number
  /** How many keys it runs at a time. Each holds at most one connection of the pool. Default 4. */
  readonly concurrency?: number
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
  readonly #concurrency: number
  readonly #running = new Set<Promise<unknown>>()
  /** Found and not ended yet: until they are taken over, they would be found again. */
  readonly #begun = new Set<string>()
  readonly #resting = new RestingKeys()
  readonly #sweep: Sweep
  /** Keys of the last round could not even be asked for, so there is no reason to hurry. */
  #storeIsAway = false
  readonly #ended: Counting = { ...NOTHING }
  readonly #poller: Poller
  #silence: (() => void) | null = null

  constructor(engine: Engine<never>, options: CompleterOptions = {}) {
    checkKnownOptions(OWNER, options, OPTION_NAMES)
    checkTimerMs(OWNER, 'pollMs', options.pollMs)
    checkWholeNumber(OWNER, 'batchSize', options.batchSize, 1, MAX_INT32)
    checkWholeNumber(OWNER, 'concurrency', options.concurrency, 1, MAX_INT32)
    this.#context = contextOf(engine, 'createBackground')
    this.#engine = engine as RunningEngine<never>
    this.#sweep = new Sweep(runnableVersions(this.#context))
    this.#batchSize = options.batchSize ?? DEFAULT_COMPLETER_BATCH_SIZE
    this.#concurrency = options.concurrency ?? DEFAULT_COMPLETER_CONCURRENCY
    this.#poller = new Poller({
      service: 'completer',
      pollMs: options.pollMs ?? DEFAULT_COMPLETER_POLL_MS,
      underWay: this.#running,
      round: async (stopping) => {
        this.#storeIsAway = false
        const { isOver } = await this.#begin(stopping, this.#ended)
        // What ended since the last round, whichever round began it.
        const counts = { ...this.#ended }
        Object.assign(this.#ended, NOTHING)
        return { counts, more: !isOver && !this.#storeIsAway }
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
    await this.#poller.stop(options)
  }

  async runOnce(): Promise<CompleterCounts> {
    const counts = { ...NOTHING }
    const { begun } = await this.#begin(new AbortController().signal, counts)
    await Promise.all(begun)
    return counts
  }

  /** Finds keys and begins each as a place becomes free. A slow key occupies its own place and no other. */
  async #begin(
    stopping: AbortSignal,
    counts: Counting,
  ): Promise<{ begun: Promise<void>[]; isOver: boolean }> {
    const begun: Promise<void>[] = []
    await this.#placeFree()
    if (stopping.aborted || this.#context.stopping.aborted) return { begun, isOver: true }
    const { keys, isOver } = await tellingRights(this.#context, () => this.#find(counts))
    // In a different order from other processes, which found the same keys.
    for (const key of shuffled(keys)) {
      await this.#placeFree()
      if (stopping.aborted) break
      counts.found++
      begun.push(this.#complete(key, counts))
    }
    return { begun, isOver }
  }

  async #find(counts: Counting): Promise<{ readonly keys: readonly DueKey[]; readonly isOver: boolean }> {
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
      const resting = this.#resting.ids()
      const isWanted = (keyId: string): boolean => !resting.has(keyId) && !this.#begun.has(keyId)
      return this.#sweep.next(store, this.#batchSize, isWanted)
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

  #complete(key: DueKey, counts: Counting): Promise<void> {
    const work = this.#resume(key, counts).finally(() => {
      this.#running.delete(work)
      this.#begun.delete(key.id)
    })
    this.#running.add(work)
    this.#begun.add(key.id)
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

  async #placeFree(): Promise<void> {
    while (this.#running.size >= this.#concurrency) await Promise.race(this.#running)
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

/** Keys that could not be taken although their rows look free, such as one that a frozen session has locked. */
class RestingKeys {
  readonly #keys = new Map<string, { readonly until: number; readonly times: number }>()

  add(keyId: string): void {
    const times = (this.#keys.get(keyId)?.times ?? 0) + 1
    this.#keys.delete(keyId)
    this.#keys.set(keyId, { until: performance.now() + backOffMs(times), times })
    const [oldest] = this.#keys.keys()
    if (this.#keys.size > MAX_RESTING_KEYS && oldest !== undefined) this.#keys.delete(oldest)
  }

  /** The keys to leave alone for now. Those that rested long ago are forgotten. */
  ids(): ReadonlySet<string> {
    const now = performance.now()
    for (const [keyId, { until, times }] of this.#keys) {
      if (now > until + backOffMs(times + 1) * 2) this.#keys.delete(keyId)
    }
    return new Set([...this.#keys].filter(([, { until }]) => until > now).map(([keyId]) => keyId))
  }
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
