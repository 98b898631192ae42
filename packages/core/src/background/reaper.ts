import { setTimeout as delay } from 'node:timers/promises'
import { announce } from '../announce/announce.js'
import { checkKnownOptions, checkWholeNumber, invalidOption, type OptionOwner } from '../check-option.js'
import type { SessionPool } from '../driver/session-pool.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import {
  DEFAULT_EFFECT_RETENTION_MS,
  DEFAULT_REAPER_BATCH_SIZE,
  DEFAULT_REAPER_PAUSE_MS,
  DEFAULT_REAPER_POLL_MS,
  MAX_INT32,
  PUT_OFF_LEAST_MS,
  PUT_OFF_MOST_MS,
} from '../limits.js'
import { type Engine, partsOf } from '../runner/engine.js'
import {
  findExpiredKeys,
  putOffKeys,
  reapEffects,
  reapKeys,
  reapTheseKeys,
} from '../storage/reap-statements.js'
import type { Store } from '../storage/statement.js'
import type { Tables } from '../storage/tables.js'
import { Poller, type Service, type StopOptions } from './service.js'

/** How the reaper works. */
export interface ReaperOptions {
  /** How often it looks, at the latest. Default 1 min. */
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
  /** Expired keys that are gone. */
  readonly deleted: number
  /** Expired keys that rows of the application refer to: left, and put off. */
  readonly held: number
  /** Old effects that are gone. */
  readonly effectsDeleted: number
}

/** Where to reap: an engine's environment, or an operator's. */
export interface ReapPlace {
  readonly sessions: SessionPool
  readonly tables: Tables
  readonly lockTimeoutMs: number
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'createBackground: reaper' }
const OPTION_NAMES = [
  'pollMs',
  'batchSize',
  'pauseMs',
  'effectRetentionMs',
] as const satisfies readonly (keyof ReaperOptions)[]

/** Deletes finished keys past their expiry, and effects past theirs. Never a running or stuck key, however old. */
export class Reaper implements Service<ReaperCounts> {
  readonly #place: ReapPlace
  readonly #pace: ReapPace
  readonly #poller: Poller

  constructor(engine: Engine<never>, options: ReaperOptions = {}) {
    const { env } = partsOf(engine, 'createBackground')
    const retentions = env.registry.definitions.map((each) => env.settings.pipeline(each).retentionMs)
    const { pollMs, ...pace } = readReaperOptions(OWNER, options, Math.max(1, ...retentions))
    this.#place = env
    this.#pace = pace
    this.#poller = new Poller({
      service: 'reaper',
      pollMs,
      round: async (stopping) => ({ counts: await reap(this.#place, this.#pace, stopping), more: false }),
    })
  }

  start(): void {
    this.#poller.start()
  }

  async stop(options: StopOptions = {}): Promise<void> {
    await this.#poller.stop(options)
  }

  async runOnce(): Promise<ReaperCounts> {
    return reap(this.#place, this.#pace, new AbortController().signal)
  }
}

/** How much at a time, and how fast. */
export type ReapPace = Required<Omit<ReaperOptions, 'pollMs'>>

/** Checks the options and fills in defaults. `longestRetentionMs`: of the keys, which effects have to outlive. */
export function readReaperOptions(
  owner: OptionOwner,
  options: ReaperOptions,
  longestRetentionMs: number,
): Required<ReaperOptions> {
  checkKnownOptions(owner, options, OPTION_NAMES)
  const { pollMs, batchSize, pauseMs, effectRetentionMs } = options
  checkWholeNumber(owner, 'pollMs', pollMs, 1, MAX_INT32)
  checkWholeNumber(owner, 'batchSize', batchSize, 1, MAX_INT32)
  checkWholeNumber(owner, 'pauseMs', pauseMs, 0, MAX_INT32)
  checkWholeNumber(owner, 'effectRetentionMs', effectRetentionMs, 1)
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

/** Deletes all that is due, batch by batch. Each is a statement of its own, so that no lock lasts longer than one. */
export async function reap(place: ReapPlace, pace: ReapPace, stopping: AbortSignal): Promise<ReaperCounts> {
  const { tables, lockTimeoutMs } = place
  const { batchSize, effectRetentionMs } = pace
  const keys = await inBatches(pace, stopping, () =>
    place.sessions.with('reaper', (session) => reapBatch({ session, tables }, batchSize, lockTimeoutMs)),
  )
  const effects = await inBatches(pace, stopping, () =>
    place.sessions.with('reaper', async (session) => ({
      deleted: await reapEffects({ session, tables }, batchSize, effectRetentionMs, lockTimeoutMs),
      held: 0,
    })),
  )
  return { deleted: keys.deleted, held: keys.held, effectsDeleted: effects.deleted }
}

interface Batch {
  readonly deleted: number
  readonly held: number
}

async function inBatches(
  { batchSize, pauseMs }: ReapPace,
  stopping: AbortSignal,
  next: () => Promise<Batch>,
): Promise<Batch> {
  const total = { deleted: 0, held: 0 }
  while (!stopping.aborted) {
    const { deleted, held } = await next()
    total.deleted += deleted
    total.held += held
    if (deleted + held < batchSize) break
    // Cut short by a stop, which is no error.
    await delay(pauseMs, undefined, { signal: stopping }).catch(() => {})
  }
  return total
}

async function reapBatch(store: Store, batchSize: number, lockTimeoutMs: number): Promise<Batch> {
  try {
    return { deleted: await reapKeys(store, batchSize, lockTimeoutMs), held: 0 }
  } catch (error) {
    if (!isAboutRows(error)) throw error
  }
  // Something of the application's holds a row of them. Find which, and delete the others.
  const held: Held[] = []
  const keyIds = await findExpiredKeys(store, batchSize)
  const deleted = await reapOrHalve(store, keyIds, lockTimeoutMs, held)
  if (held.length === 0) return { deleted, held: 0 }
  await putOffKeys(
    store,
    held.map(({ keyId }) => keyId),
    { leastMs: PUT_OFF_LEAST_MS, mostMs: PUT_OFF_MOST_MS, lockTimeoutMs },
  )
  for (const constraint of new Set(held.map((each) => each.constraint))) {
    const ids = held.filter((each) => each.constraint === constraint).map(({ keyId }) => keyId)
    announce('pawl:reap_held', () => ({ keyIds: ids, constraint }))
  }
  return { deleted, held: held.length }
}

interface Held {
  readonly keyId: string
  readonly constraint: string | null
}

/** Halves a batch that fails until the rows to blame stand alone: few statements where few are to blame. */
async function reapOrHalve(
  store: Store,
  keyIds: readonly string[],
  lockTimeoutMs: number,
  held: Held[],
): Promise<number> {
  if (keyIds.length === 0) return 0
  try {
    return await reapTheseKeys(store, keyIds, lockTimeoutMs)
  } catch (error) {
    if (!isAboutRows(error)) throw error
    const [only] = keyIds
    if (keyIds.length === 1 && only !== undefined) {
      held.push({ keyId: only, constraint: constraintOf(error) })
      return 0
    }
  }
  const middle = Math.ceil(keyIds.length / 2)
  const first = await reapOrHalve(store, keyIds.slice(0, middle), lockTimeoutMs, held)
  return first + (await reapOrHalve(store, keyIds.slice(middle), lockTimeoutMs, held))
}

/** Constraints, triggers and locks of the application: the row's fault, and no reason to leave the others. */
function isAboutRows(error: unknown): boolean {
  const sqlState = sqlStateOf(error)
  return sqlState !== null && (/^(?:23|P0)/.test(sqlState) || sqlState === '55P03')
}

function constraintOf(error: unknown): string | null {
  const { constraint } = error as { readonly constraint?: unknown }
  return typeof constraint === 'string' ? constraint : null
}
