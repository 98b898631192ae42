import type { Pool } from 'pg'
import { checkKnownOptions, invalidOption, type OptionOwner } from '../check-option.js'
import { SessionPool } from '../driver/session-pool.js'
import {
  CONNECTION_DEADLINE_SLACK_MS,
  DEFAULT_ACQUIRE_TIMEOUT_MS,
  OPERATOR_STATEMENT_MS,
  STEER_LOCK_TIMEOUT_MS,
} from '../limits.js'
import { checkHashSecret } from '../hash-secret.js'
import { checkProtection } from '../protection.js'
import { explaining } from '../storage/schema/explaining.js'
import { learnSpread } from '../storage/schema/learn-spread.js'
import type { Worker } from '../storage/schema/missing-right.js'
import type { Store } from '../storage/statement.js'
import { DEFAULT_SCHEMA, type Tables, tablesIn } from '../storage/tables.js'
import type { OperatorOptions } from './operator.js'

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'createOperator' }

/** Where an operator works: its pool, and the tables in it. */
export class OperatorContext {
  readonly pool: Pool
  readonly tables: Tables
  readonly sessions: SessionPool
  readonly hashSecret: string | null

  constructor(options: OperatorOptions) {
    checkKnownOptions(OWNER, options, ['pool', 'schema', 'hashSecret', 'protect'])
    const { pool, schema, protect } = options
    this.hashSecret = checkHashSecret(OWNER, options.hashSecret)
    if (typeof (pool as Partial<Pool> | undefined)?.connect !== 'function')
      throw invalidOption(OWNER, 'pool', pool, 'a pg.Pool')
    this.pool = pool
    this.tables = tablesIn(schema ?? DEFAULT_SCHEMA, OWNER.where, checkProtection(OWNER, protect))
    this.sessions = new SessionPool(pool, {
      acquireTimeoutMs: DEFAULT_ACQUIRE_TIMEOUT_MS,
      statementDeadlineMs: OPERATOR_STATEMENT_MS + CONNECTION_DEADLINE_SLACK_MS,
      lockTimeoutMs: STEER_LOCK_TIMEOUT_MS,
      pipelining: true,
      preparedStatements: false,
      spread: this.tables.spread,
      learn: learnSpread(this.tables),
      probe: null,
    })
  }

  /** Runs work on its own session. Where tables are missing, or may not be used, the error says what to do. */
  async with<T>(work: (store: Store) => Promise<T>, worker: Worker = 'operator'): Promise<T> {
    return this.explain(
      () => this.sessions.with('operator', (session) => work({ session, tables: this.tables })),
      worker,
    )
  }

  /** The same for work that takes sessions by itself. */
  async explain<T>(work: () => Promise<T>, worker: Worker = 'operator'): Promise<T> {
    return explaining(this, work, worker)
  }
}
