import { randomUUID } from 'node:crypto'
import { PawlError } from '../errors.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { RECONNECT_TRIES, RESERVE_ROUNDS } from '../limits.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { KeyRow } from '../storage/key-row.js'
import {
  findKey,
  findKeyById,
  giveUpKey,
  insertKey,
  type NewKey,
  takeOverKey,
} from '../storage/reserve-statements.js'
import type { Store } from '../storage/statement.js'
import { DEFAULT_SCHEMA } from '../storage/tables.js'
import { type Asking, type Decision, decideReservation } from './decide-reservation.js'
import type { Environment } from './environment.js'

/** A fresh request's reservation, or an existing key's. */
export type Wanted =
  | {
      readonly by: 'request'
      readonly definition: PipelineDefinition
      readonly key: Omit<NewKey, 'holder' | 'leaseMs'>
    }
  /** A request whose input no longer validates: it may only meet what is there already. */
  | {
      readonly by: 'existing'
      readonly definition: PipelineDefinition
      readonly scope: string
      readonly key: string
      readonly fingerprint: Buffer
    }
  | { readonly by: 'id'; readonly id: string }

/** What came of asking for a key. */
export type Reservation =
  | {
      readonly type: 'granted'
      readonly how: 'reserved' | 'taken_over'
      readonly row: KeyRow
      readonly definition: PipelineDefinition
      /** On this process's monotonic clock, before the grant was asked for: the lease ends no later than from here. */
      readonly askedAt: number
    }
  | { readonly type: 'gone' }
  | { readonly type: 'locked' }
  | { readonly type: 'unavailable'; readonly error: unknown }
  /** `gaveUp`: it is stuck since just now, by us. */
  | {
      readonly type: 'decided'
      readonly row: KeyRow
      readonly decision: Settled
      readonly gaveUp: boolean
    }

/** Decisions that end the matter. `give_up` is among them once it has been written. */
type Settled = Exclude<Decision, { type: 'take_over' | 'ours' | 'give_up' }>

/**
 * Gets the key, or learns why not. No user code has run before, and none runs unless it is granted. A connection that
 * breaks on the way is replaced: the holder's name tells whether the grant had gone through.
 */
export async function reserveKey(env: Environment, wanted: Wanted): Promise<Reservation> {
  const holder = randomUUID()
  let lastError: unknown = null
  for (let attempt = 0; attempt < RECONNECT_TRIES; attempt++) {
    try {
      return await env.sessions.with('reserve', (session) =>
        askForKey(env, { session, tables: env.tables }, wanted, holder),
      )
    } catch (error) {
      lastError = error
      const sqlState = sqlStateOf(error)
      if (sqlState === '42P01' || sqlState === '3F000' || sqlState === '42703') throw notMigrated(env, error)
      if (sqlState === '55P03') return { type: 'locked' }
      if (!(error instanceof PawlError && error.code === 'PAWL_CONNECTION_LOST')) break
    }
  }
  return { type: 'unavailable', error: lastError }
}

async function askForKey(
  env: Environment,
  store: Store,
  wanted: Wanted,
  holder: string,
): Promise<Reservation> {
  for (let round = 0; round < RESERVE_ROUNDS; round++) {
    try {
      const reservation = await askOnce(env, store, wanted, holder)
      if (reservation !== 'moved') return reservation
    } catch (error) {
      // Where the database's default is REPEATABLE READ, meeting a row that came a moment ago is a conflict.
      const sqlState = sqlStateOf(error)
      if (sqlState !== '40001' && sqlState !== '40P01') throw error
    }
  }
  return { type: 'locked' }
}

async function askOnce(
  env: Environment,
  store: Store,
  wanted: Wanted,
  holder: string,
): Promise<Reservation | 'moved'> {
  const askedAt = performance.now()
  if (wanted.by === 'request') {
    const leaseMs = env.settings.leaseMsAt(wanted.definition, 'started')
    const fresh = await insertKey(store, { ...wanted.key, holder, leaseMs }, env.lockTimeoutMs)
    if (fresh !== null)
      return { type: 'granted', how: 'reserved', row: fresh, definition: wanted.definition, askedAt }
  }
  const row = await read(store, wanted)
  if (row === null) return wanted.by === 'request' ? 'moved' : { type: 'gone' }

  const decision = decideReservation(row, asking(wanted, holder), env.registry, env.settings)
  switch (decision.type) {
    case 'take_over': {
      const { definition, at } = decision
      const leaseMs = env.settings.leaseMsAt(definition, at.recoveryPoint)
      const by = { ...at, holder, leaseMs, version: definition.version, definitionHash: definition.hash }
      const taken = await takeOverKey(store, row, by)
      return taken === null
        ? 'moved'
        : { type: 'granted', how: 'taken_over', row: taken, definition, askedAt }
    }
    case 'ours':
      return {
        type: 'granted',
        how: row.fence === 1 ? 'reserved' : 'taken_over',
        row,
        definition: decision.definition,
        askedAt,
      }
    case 'give_up': {
      const { reason } = decision
      const written = await giveUpKey(store, row, holder, reason)
      return written ? { type: 'decided', row, decision: { type: 'stuck', reason }, gaveUp: true } : 'moved'
    }
    default:
      return { type: 'decided', row, decision, gaveUp: false }
  }
}

function read(store: Store, wanted: Wanted): Promise<KeyRow | null> {
  switch (wanted.by) {
    case 'request':
      return findKey(store, wanted.key.scope, wanted.key.key)
    case 'existing':
      return findKey(store, wanted.scope, wanted.key)
    case 'id':
      return findKeyById(store, wanted.id)
  }
}

function asking(wanted: Wanted, holder: string): Asking {
  if (wanted.by === 'id') return { holder, request: null }
  const fingerprint = wanted.by === 'request' ? wanted.key.fingerprint : wanted.fingerprint
  return { holder, request: { pipeline: wanted.definition.name, fingerprint: fingerprint.toString('hex') } }
}

function notMigrated(env: Environment, cause: unknown): PawlError {
  return new PawlError(
    'PAWL_NOT_MIGRATED',
    `The tables of Pawl are not in schema '${env.tables.schema}', or are of another version. Run ${migrateCall(env)} first.`,
    { cause },
  )
}

function migrateCall({ tables }: Environment): string {
  return tables.schema === DEFAULT_SCHEMA ? 'migrate(pool)' : `migrate(pool, { schema: '${tables.schema}' })`
}
