import type { Pool } from 'pg'
import type { SessionOptions } from '../driver/session.js'
import { SessionPool } from '../driver/session-pool.js'
import { REPLICA_REST_MS } from '../limits.js'
import { findKeyOnReplica } from '../storage/keys/find-key-on-replica.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { readWrittenPosition } from '../storage/keys/read-written-position.js'
import type { Tables } from '../storage/tables.js'
import { type AskedPrimary, askPrimary } from './ask-primary.js'
import { judgeReplica } from './judge-replica.js'
import { KnownPosition, PrimaryPositions } from './primary-positions.js'
import { type Look, SideSource } from './side-source.js'

export interface ReplicaOptions extends AskedPrimary {
  /** Of the replica. */
  readonly pool: Pool
  readonly ofSessions: SessionOptions
  readonly tables: Tables
  readonly maxLagMs: number
  /** How long a request waits. */
  readonly timeoutMs: number
}

/**
 * A copy of the database that finished keys are looked for on. It answers only if it knows of everything that the primary had
 * committed `maxLagMs` ago, so a key that was deleted before that is not found here. Whatever is wrong with it, the primary
 * decides: a replica can make a request slower, by a bounded time, and nothing else.
 */
export class Replica {
  readonly #options: ReplicaOptions
  readonly #sessions: SessionPool
  readonly #positions: PrimaryPositions
  readonly #source: SideSource

  constructor(options: ReplicaOptions) {
    const { pool, ofSessions, timeoutMs, maxLagMs } = options
    this.#options = options
    // A request gives up at the same time or earlier. These end what it has left behind.
    const limits = { statementDeadlineMs: timeoutMs, lockTimeoutMs: timeoutMs, acquireTimeoutMs: timeoutMs }
    // What a replica answers says nothing of the primary.
    this.#sessions = new SessionPool(pool, { ...ofSessions, ...limits, signs: null, learn: nothingToLearn })
    this.#positions = new PrimaryPositions(() => this.#askForPosition(), maxLagMs)
    const restMs = REPLICA_REST_MS
    this.#source = new SideSource({ timeoutMs, restMs, tooLate: tooLate(timeoutMs), failed: FAILED })
  }

  /** Returns a finished key's row, if it may be replayed from here. Never throws. */
  async findFinished(scope: string, key: string): Promise<KeyRow | null> {
    const look = await this.#source.ask(() => this.#look(scope, key))
    return look?.told ?? null
  }

  async #look(scope: string, key: string): Promise<Look<KeyRow | null>> {
    const { tables } = this.#options
    const known = await this.#positions.oldestAllowed()
    if (tables.spread.overServers) return { type: 'unfit', why: OVER_SERVERS, error: null }
    const { at, row } = await this.#sessions.with('replica', (session) =>
      findKeyOnReplica({ session, tables }, scope, key),
    )
    const why = judgeReplica(at, known.written)
    if (why !== null) return { type: 'unfit', why, error: null }
    return { type: 'told', told: row !== null && mayReplay(row, known) ? row : null }
  }

  #askForPosition(): Promise<KnownPosition> {
    const { tables } = this.#options
    return askPrimary(
      this.#options,
      async (session, asked) => new KnownPosition(await readWrittenPosition({ session, tables }), asked),
    )
  }
}

/**
 * By the clock that the expiry was set by. The primary deletes a key only after its expiry, so that an expired key is never
 * found on a replica that has not heard of the deletion yet.
 */
function mayReplay({ response, expiresMs }: KeyRow, known: KnownPosition): boolean {
  return response !== null && expiresMs !== null && expiresMs > known.primaryNowMs
}

/** Whoever asks the primary for its position learns how the tables are spread. */
const nothingToLearn = (): Promise<void> => Promise.resolve()

const tooLate = (timeoutMs: number): string =>
  `The replica of replayFrom, or the primary when asked for its position, did not answer within ${timeoutMs} ms. ` +
  'Replays come from the primary meanwhile.'

/** What a coordinator has written says nothing of what the replicas of its workers have heard of. */
const OVER_SERVERS =
  'The tables are distributed over several servers, where the position of one says nothing of the others. Replays come from the primary.'

const FAILED =
  'The replica of replayFrom, or the primary when asked for its position, could not be asked. Replays come from the primary ' +
  'meanwhile.'
