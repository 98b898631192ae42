import { setTimeout as delay } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import type { Scene } from '../cast/scene.js'
import { BLOCKED_POLL_MS, TABLE_LOCK_TIMEOUT_MS, UNBOUNDED_WAIT_MS } from '../limits.js'
import type { Fault, Strike } from './fault.js'

/**
 * Statements about the keys that are transactions of their own. Not those of a phase's transaction: it may have locked the
 * table already, by a row that refers to its key, and nobody else could.
 */
const STAND_ALONE: ReadonlySet<string> = new Set([
  'insert_key',
  'find_key',
  'find_key_by_id',
  'take_over_key',
  'mark_unheld_stuck',
  'raise_fence',
  'declare_call',
  'skip_phase',
  'give_back_key',
  'mark_stuck',
  'find_unattended_keys',
])

const SOON = { lockTimeoutMs: TABLE_LOCK_TIMEOUT_MS }

/** A migration has the table of keys for itself. Who comes to it is refused after its lock time-out, not kept waiting. */
export const tableLock: Fault = {
  id: 'tableLock',
  title: "keys' table locked by a migration",
  appliesTo: ({ step, when }) => when === 'before' && STAND_ALONE.has(step),
  settings: () => SOON,
  engineSettings: () => SOON,
  async strike(strike) {
    const { scene, actor, fired, meanwhile } = strike
    const refused = actor.wire.whenRefused('55P03')
    // At once: a round of the completer may have ended before somebody has looked.
    void refused.then(fired)
    await scene.note('migration', "locks the keys' table")
    const migration = await lockKeys(scene)
    meanwhile(async () => {
      try {
        await untilRefused(strike, refused)
      } finally {
        await migration.query('ROLLBACK')
        migration.release()
      }
    })
  },
}

async function lockKeys({ theatre: { database } }: Scene): Promise<PoolClient> {
  const migration = await database.admin.connect()
  try {
    await migration.query(
      `BEGIN; LOCK TABLE ${database.pawlSchema}.idempotency_keys IN ACCESS EXCLUSIVE MODE`,
    )
    return migration
  } catch (error) {
    migration.release(true)
    throw error
  }
}

/** Comes back when the statement has, or when it has waited for so long that nothing bounds it. */
async function untilRefused({ scene, actor, fired, until }: Strike, refused: Promise<void>): Promise<void> {
  const isRefused = refused.then(() => true)
  let waitedMs = 0
  while (waitedMs < UNBOUNDED_WAIT_MS) {
    if (await until(Promise.race([isRefused, delay(BLOCKED_POLL_MS, false)]))) {
      scene.jot('database', `55P03 for ${actor.name}`)
      return
    }
    waitedMs = await scene.theatre.database.tableWaitMs(actor.name)
  }
  fired()
  scene.violations.push({
    rule: 'I14',
    title: 'no statement waits for a lock without end, and keeps a connection',
    detail:
      `A statement of ${actor.name} has waited for the keys' table for ${Math.floor(waitedMs)} ms, and its lock time-out was ` +
      `${TABLE_LOCK_TIMEOUT_MS} ms: while a table is locked, such statements take all connections.`,
  })
}
