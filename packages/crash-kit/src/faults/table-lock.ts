import { setTimeout as delay } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import type { Trial } from '../actors/trial.js'
import { BLOCKED_POLL_MS, TABLE_LOCK_TIMEOUT_MS, UNBOUNDED_WAIT_MS } from '../limits.js'
import type { Fault, Strike } from './fault.js'

/**
 * Statements about keys that are transactions of their own. Those of a phase's transaction are not among them: it may already have
 * locked the table, by a row that refers to its key, and then nobody else could.
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

/** A migration has locked the table of keys. Other statements have to be refused after their lock time-out, not kept waiting. */
export const tableLock: Fault = {
  id: 'tableLock',
  title: "keys' table locked by a migration",
  appliesTo: ({ step, when }) => when === 'before' && STAND_ALONE.has(step),
  settings: () => SOON,
  engineSettings: () => SOON,
  async strike(strike) {
    const { trial, actor, fired, meanwhile } = strike
    const refused = actor.wire.whenRefused('55P03')
    // At once, because a round of the completer may end before anyone has looked.
    void refused.then(fired)
    await trial.record('migration', "locks the keys' table")
    const migration = await lockKeys(trial)
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

async function lockKeys({ environment: { database } }: Trial): Promise<PoolClient> {
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

/** Resolves when the statement has been refused, or has waited for so long that nothing bounds it. */
async function untilRefused({ trial, actor, fired, until }: Strike, refused: Promise<void>): Promise<void> {
  const isRefused = refused.then(() => true)
  let waitedMs = 0
  while (waitedMs < UNBOUNDED_WAIT_MS) {
    if (await until(Promise.race([isRefused, delay(BLOCKED_POLL_MS, false)]))) {
      trial.recordNow('database', `55P03 for ${actor.name}`)
      return
    }
    waitedMs = await trial.environment.database.tableWaitMs(actor.name)
  }
  fired()
  trial.violations.push({
    rule: 'I14',
    title: 'no statement waits for a lock for ever and keeps a connection',
    detail:
      `A statement of ${actor.name} has waited for the keys' table for ${Math.floor(waitedMs)} ms, but its lock time-out was ` +
      `${TABLE_LOCK_TIMEOUT_MS} ms: while a table is locked, such statements take all connections.`,
  })
}
