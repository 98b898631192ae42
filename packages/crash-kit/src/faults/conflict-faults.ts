import type { PhaseSettings } from '@pawl/core'
import type { PoolClient } from 'pg'
import { whenBlocked } from '../actors/when-blocked.js'
import {
  LONG_LEASE_MS,
  LONG_LOCK_TIMEOUT_MS,
  LONG_STATEMENT_TIMEOUT_MS,
  SHORT_STATEMENT_TIMEOUT_MS,
} from '../limits.js'
import { type Fault, isAdvance, type Strike } from './fault.js'

/** An advisory lock that only the deadlock uses. */
const DEADLOCK_LOCK = 7_214_901

/**
 * Locks the key's row in a transaction of the kit, so that the actor that is about to write it has to wait. `goOn` runs meanwhile,
 * and decides how that transaction ends.
 */
async function withRowLocked(
  { trial, meanwhile }: Strike,
  goOn: (other: PoolClient) => Promise<'COMMIT' | 'ROLLBACK'>,
): Promise<void> {
  const { database } = trial.environment
  const other = await database.admin.connect()
  await other.query('BEGIN')
  await other.query(
    `UPDATE ${database.pawlSchema}.idempotency_keys SET updated_at = updated_at WHERE scope = $1 AND key = $2`,
    [trial.scope, trial.key],
  )
  meanwhile(async () => {
    let end: 'COMMIT' | 'ROLLBACK' = 'ROLLBACK'
    try {
      end = await goOn(other)
    } finally {
      await other.query(end)
      other.release()
    }
  })
}

/** A phase waits for the kit's lock for as long as the fault needs, however short the application's time-outs are. */
const PATIENT: PhaseSettings = {
  lockTimeoutMs: LONG_LOCK_TIMEOUT_MS,
  statementTimeoutMs: LONG_STATEMENT_TIMEOUT_MS,
  idleTimeoutMs: LONG_STATEMENT_TIMEOUT_MS,
  leaseMs: LONG_LEASE_MS,
}

/** A real 40001: the phase runs under REPEATABLE READ, and another transaction writes the row that it is about to write. */
export const serializationFailure: Fault = {
  id: 'serializationFailure',
  title: 'serialization failure (40001)',
  appliesTo: isAdvance,
  settings: () => ({ ...PATIENT, isolation: 'repeatable read' }),
  async strike(strike) {
    const { trial, actor, fired, until } = strike
    void actor.wire.whenRefused('40001').then(fired)
    await withRowLocked(strike, async () => {
      await until(whenBlocked(trial, actor.name))
      trial.recordNow('database', `40001 for ${actor.name}`)
      return 'COMMIT'
    })
  },
}

/** A real 40P01: two transactions each wait for what the other has locked. */
export const deadlock: Fault = {
  id: 'deadlock',
  title: 'deadlock (40P01)',
  appliesTo: isAdvance,
  settings: () => PATIENT,
  lock: DEADLOCK_LOCK,
  async strike(strike) {
    const { trial, actor, fired, until } = strike
    void actor.wire.whenRefused('40P01').then(fired)
    await withRowLocked(strike, async (other) => {
      // The session that detects the deadlock is the one that fails. The kit's own never does, if it may set this.
      await other.query('SAVEPOINT before')
      await other.query(`SET LOCAL deadlock_timeout = '1h'`).catch(() => other.query('ROLLBACK TO before'))
      await until(whenBlocked(trial, actor.name))
      trial.recordNow('database', `40P01 for ${actor.name}`)
      await other.query('SELECT pg_advisory_xact_lock($1)', [DEADLOCK_LOCK]).catch(() => {})
      return 'ROLLBACK'
    })
  },
}

/** A real 57014: the statement waits for a lock until its time-out. */
export const statementTimeout: Fault = {
  id: 'statementTimeout',
  title: 'statement time-out (57014)',
  appliesTo: isAdvance,
  settings: () => ({ ...PATIENT, statementTimeoutMs: SHORT_STATEMENT_TIMEOUT_MS }),
  async strike(strike) {
    const { trial, actor, fired, until } = strike
    const refused = actor.wire.whenRefused('57014')
    await withRowLocked(strike, async () => {
      await until(refused)
      fired()
      trial.recordNow('database', `57014 for ${actor.name}`)
      return 'ROLLBACK'
    })
  },
}
