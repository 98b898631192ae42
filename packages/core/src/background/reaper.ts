import { setTimeout as delay } from 'node:timers/promises'
import { traceRound } from '../announce/tracing.js'
import {
  checkKnownOptions,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import type { SessionPool } from '../driver/session-pool.js'
import {
  DEFAULT_EFFECT_RETENTION_MS,
  DEFAULT_REAPER_BATCH_SIZE,
  DEFAULT_REAPER_PAUSE_MS,
  DEFAULT_REAPER_POLL_MS,
  DUPLICATES_RETENTION_MS,
  MAX_DURATION_MS,
  MAX_INT32,
  REAPER_LOCK_TIMEOUT_MS,
} from '../limits.js'
import type { Engine } from '../engine/engine.js'
import { contextOf, type EngineContext } from '../engine/engine-context.js'
import { tellingRights } from '../storage/schema/missing-right.js'
import type { Tables } from '../storage/tables.js'
import { type Batch, reapBatch } from './reap-batch.js'
import { reapDuplicates } from './reap-duplicates.js'
import { reapOldEffects } from './reap-old-effects.js'
import { reapUsage } from './reap-usage.js'
import { Poller, type Service, type StopOptions } from './service.js'

/** How the reaper works. */
export interface ReaperOptions {
  /** The longest time between two looks. Default 1 min. */
  readonly pollMs?: number
  /** How many rows one statement deletes. Default 500. */
  readonly batchSize?: number
  /** Pause between two batches. Default 50 ms. */
  readonly pauseMs?: number
  /** How long `effects` are kept. Not shorter than the longest retention of a key. Default 400 days. */
  readonly effectRetentionMs?: number
}

/** What one round of the reaper did. */
export type ReaperCounts = {
  /** Expired keys that were deleted. */
  readonly deleted: number
  /** Expired keys that something in the application holds, such as a foreign key: left, and put off. */
  readonly held: number
  /** Old effects that were deleted. */
  readonly effectsDeleted: number
  /** Rows of usage that were deleted: with limits, of scopes that have used nothing for a while. */
  readonly usageDeleted: number
  /** Counts of duplicates that were deleted, where the engine counts them. */
  readonly duplicatesDeleted: number
}

/** Where to reap: an engine's environment, or an operator's. */
export interface ReapContext {
  readonly sessions: SessionPool
  readonly tables: Tables
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'createBackground: reaper' }
const OPTION_NAMES = [
  'pollMs',
  'batchSize',
  'pauseMs',
  'effectRetentionMs',
] as const satisfies readonly (keyof ReaperOptions)[]

/**
 * Deletes finished keys past their expiry, effects past theirs, and what is known of the usage of idle scopes. Never a running or stuck
 * key, however old.
 */
export class Reaper implements Service<ReaperCounts> {
  readonly #context: EngineContext
  /** The scope after which the next round looks at usage. */
  #usageAfter = ''
  readonly #pace: ReapPace
  readonly #poller: Poller

  constructor(engine: Engine<never>, options: ReaperOptions = {}) {
    const context = contextOf(engine, 'createBackground')
    const retentions = context.registry.definitions.map((each) => context.settings.pipeline(each).retentionMs)
    const { pollMs, ...pace } = readReaperOptions(OWNER, options, Math.max(1, ...retentions))
    this.#context = context
    this.#pace = pace
    this.#poller = new Poller({
      service: 'reaper',
      tracing: context.tracing,
      pollMs,
      round: async (stopping) => ({ counts: await this.#reap(stopping), more: false }),
    })
  }

  start(): void {
    this.#poller.start()
  }

  async stop(options: StopOptions = {}): Promise<void> {
    await this.#poller.stop(options)
  }

  async runOnce(): Promise<ReaperCounts> {
    return traceRound(this.#context.tracing, 'reaper', () => this.#reap(new AbortController().signal))
  }

  #reap(stopping: AbortSignal): Promise<ReaperCounts> {
    return tellingRights(this.#context, async () => {
      const counts = await reap(this.#context, this.#pace, stopping)
      return {
        ...counts,
        usageDeleted: this.#context.limits.areOnAnywhere ? await this.#reapUsage(stopping) : 0,
        duplicatesDeleted: this.#context.duplicates === null ? 0 : await this.#reapDuplicates(stopping),
      }
    })
  }

  async #reapDuplicates(stopping: AbortSignal): Promise<number> {
    const { sessions, tables } = this.#context
    const { deleted } = await inBatches(this.#pace, stopping, () =>
      sessions.with('reaper', async (session) => {
        session.shortenLockTimeout(REAPER_LOCK_TIMEOUT_MS)
        const store = { session, tables }
        const gone = await reapDuplicates(store, this.#pace.batchSize, DUPLICATES_RETENTION_MS)
        return { found: gone, deleted: gone, held: 0, lastMs: 0 }
      }),
    )
    return deleted
  }

  /** A part of the table in each round: nothing in it is in a hurry. */
  async #reapUsage(stopping: AbortSignal): Promise<number> {
    const { sessions, tables } = this.#context
    let deleted = 0
    for (let page = 0; page < USAGE_PAGES_PER_ROUND && !stopping.aborted; page++) {
      if (page > 0) await pause(this.#pace, stopping)
      const { deleted: ofPage, after } = await sessions.with('reaper', (session) => {
        session.shortenLockTimeout(REAPER_LOCK_TIMEOUT_MS)
        return reapUsage({ session, tables }, this.#pace.batchSize, this.#usageAfter)
      })
      deleted += ofPage
      this.#usageAfter = after ?? ''
      if (after === null) break
    }
    return deleted
  }
}

/** At most so many pages of usage in one round, which may find very many scopes with nothing to delete. */
const USAGE_PAGES_PER_ROUND = 20

/** How much at a time, how fast, and where. */
export interface ReapPace {
  readonly batchSize: number
  readonly pauseMs: number
  readonly effectRetentionMs: number
  /** Null stands for the whole table. */
}

/**
 * Checks the options and fills in defaults. `longestRetentionMs`: the longest retention of keys, which effects have to
 * outlive.
 */
export function readReaperOptions(
  owner: OptionOwner,
  options: ReaperOptions,
  longestRetentionMs: number,
): ReapPace & { readonly pollMs: number } {
  checkKnownOptions(owner, options, OPTION_NAMES)
  const { pollMs, batchSize, pauseMs, effectRetentionMs } = options
  checkTimerMs(owner, 'pollMs', pollMs)
  checkWholeNumber(owner, 'batchSize', batchSize, 1, MAX_INT32)
  checkTimerMs(owner, 'pauseMs', pauseMs, 0)
  checkWholeNumber(owner, 'effectRetentionMs', effectRetentionMs, 1, MAX_DURATION_MS)
  if (effectRetentionMs !== undefined && effectRetentionMs < longestRetentionMs) {
    const takes = `${longestRetentionMs} or more, which is how long the keys are kept`
    throw invalidOption(owner, 'effectRetentionMs', effectRetentionMs, takes)
  }
  return {
    pollMs: pollMs ?? DEFAULT_REAPER_POLL_MS,
    batchSize: batchSize ?? DEFAULT_REAPER_BATCH_SIZE,
    pauseMs: pauseMs ?? DEFAULT_REAPER_PAUSE_MS,
    effectRetentionMs: effectRetentionMs ?? Math.max(DEFAULT_EFFECT_RETENTION_MS, longestRetentionMs),
  }
}

/** Deletes everything that is due, batch by batch. Each batch is a statement of its own, so that no lock outlasts it. */
export async function reap(
  context: ReapContext,
  pace: ReapPace,
  stopping: AbortSignal,
): Promise<ReaperCounts> {
  const { sessions, tables } = context
  const { batchSize, effectRetentionMs } = pace
  const keys = await inBatches(pace, stopping, (fromMs) =>
    sessions.with('reaper', (session) => {
      session.shortenLockTimeout(REAPER_LOCK_TIMEOUT_MS)
      return reapBatch({ store: { session, tables }, batchSize, stopping }, fromMs)
    }),
  )
  const effects = await inBatches(pace, stopping, async (fromMs) => {
    const old = await sessions.with('reaper', (session) => {
      session.shortenLockTimeout(REAPER_LOCK_TIMEOUT_MS)
      return reapOldEffects({ session, tables }, batchSize, fromMs, effectRetentionMs)
    })
    const found = old.length
    const deleted = old.filter((effect) => effect.deleted).length
    const lastMs = old.reduce((latest, { createdMs }) => Math.max(latest, createdMs), -Infinity)
    // Those of keys that are still there stay, and the next batch begins after them.
    const isFurther = lastMs > (fromMs ?? -Infinity)
    return { found, deleted, held: isFurther ? found - deleted : 0, lastMs }
  })
  return {
    deleted: keys.deleted,
    held: keys.held,
    effectsDeleted: effects.deleted,
    usageDeleted: 0,
    duplicatesDeleted: 0,
  }
}

async function inBatches(
  pace: ReapPace,
  stopping: AbortSignal,
  next: (fromMs: number | null) => Promise<Batch>,
): Promise<{ readonly deleted: number; readonly held: number }> {
  const { batchSize } = pace
  const total = { deleted: 0, held: 0 }
  let fromMs: number | null = null
  while (!stopping.aborted) {
    const { found, deleted, held, lastMs } = await next(fromMs)
    total.deleted += deleted
    total.held += held
    // A batch in which nothing moved would only be repeated.
    if (found < batchSize || deleted + held === 0) break
    fromMs = lastMs
    await pause(pace, stopping)
  }
  return total
}

/** A stop cuts it short, which is not an error. */
const pause = ({ pauseMs }: ReapPace, stopping: AbortSignal): Promise<void> =>
  delay(pauseMs, undefined, { signal: stopping }).catch(() => {})
