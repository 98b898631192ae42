import { randomUUID } from 'node:crypto'
import { PawlError } from '../errors.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import type { Session } from '../driver/session.js'
import { RECONNECT_TRIES, RESERVE_ROUNDS } from '../limits.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { KeyKind, KeyRow } from '../storage/key-row.js'
import { explained } from '../storage/explaining.js'
import {
  findKeyById,
  findKeyToReplay,
  markUnheldKeyStuck,
  insertKey,
  type NewKey,
  takeOverKey,
  writeOut,
} from '../storage/reserve-statements.js'
import type { Store } from '../storage/statement.js'
import { type Asking, type Decision, decideReservation } from './decide-reservation.js'
import type { RequestContext } from './request-context.js'

/** A fresh request's reservation, or an existing key's. */
export type Wanted =
  | {
      readonly by: 'request'
      readonly definition: PipelineDefinition
      readonly key: NewKey
      /** The caller does not run it; the completer will. */
      readonly enqueue: boolean
    }
  /** A request whose input no longer validates: it may only meet what is there already. */
  | {
      readonly by: 'existing'
      readonly definition: PipelineDefinition
      readonly scope: string
      readonly key: string
      readonly fingerprint: Buffer
      readonly enqueue: boolean
    }
  /** `onlyDue`: not before its back-off is over, which a person or a client need not wait for. */
  | { readonly by: 'id'; readonly id: string; readonly onlyDue: boolean }

/** A key that is ours to run. */
export interface Granted {
  readonly type: 'granted'
  readonly how: 'reserved' | 'taken_over'
  readonly row: KeyRow
  readonly definition: PipelineDefinition
  /** On this process's monotonic clock, before the grant was asked for: the lease ends no later than from here. */
  readonly askedAt: number
  /** What it was asked for on: to go on with, or to be released. */
  readonly session: Session
}

/** What came of asking for a key. */
export type Reservation =
  | Granted
  /** It is there and runs, or will be run, without us. `fresh`: we put it there. */
  | { readonly type: 'enqueued'; readonly row: KeyRow; readonly fresh: boolean }
  | { readonly type: 'gone' }
  | { readonly type: 'locked' }
  | { readonly type: 'unavailable'; readonly error: unknown }
  /** `markedStuck`: it is stuck since just now, by us. */
  | {
      readonly type: 'decided'
      readonly row: KeyRow
      readonly decision: Settled
      readonly markedStuck: boolean
    }

/** Decisions that end the matter. `mark_stuck` is among them once it has been written. */
type Settled = Exclude<Decision, { type: 'take_over' | 'ours' | 'mark_stuck' }>

/**
 * Gets the key, or learns why not. No user code has run before, and none runs unless it is granted. A connection that
 * breaks on the way is replaced: the holder's name tells whether the grant had gone through.
 */
export async function reserveKey(env: RequestContext, wanted: Wanted): Promise<Reservation> {
  const holder = randomUUID()
  let lastError: unknown = null
  for (let attempt = 0; attempt < RECONNECT_TRIES; attempt++) {
    try {
      return await askOnSession(env, wanted, holder)
    } catch (error) {
      lastError = error
      const sqlState = sqlStateOf(error)
      const wrongUse = await explained(env, error)
      if (wrongUse !== error) throw wrongUse
      if (sqlState === '55P03') return { type: 'locked' }
      if (!(error instanceof PawlError && error.code === 'PAWL_CONNECTION_LOST')) break
    }
  }
  return { type: 'unavailable', error: lastError }
}

/** The session goes along with the key, if that is granted: a transaction often follows at once. */
async function askOnSession(env: RequestContext, wanted: Wanted, holder: string): Promise<Reservation> {
  const session = await env.sessions.acquire('reserve')
  let granted = false
  try {
    const reservation = await askForKey(env, { session, tables: env.tables }, wanted, holder)
    granted = reservation.type === 'granted'
    return reservation
  } finally {
    if (!granted) session.release()
  }
}

async function askForKey(
  env: RequestContext,
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
  env: RequestContext,
  store: Store,
  wanted: Wanted,
  holder: string,
): Promise<Reservation | 'moved'> {
  const askedAt = performance.now()
  const { replayLikelihood } = env
  let row: KeyRow | null = null
  if (wanted.by === 'request') {
    if (replayLikelihood.isHigh) row = await read(store, wanted)
    if (row !== null) replayLikelihood.learn(true)
    else {
      const leaseMs = wanted.enqueue ? null : env.settings.leaseMsAt(wanted.definition, 'started')
      const durable = wanted.enqueue || beginsWithCall(wanted.definition)
      const grant = { holder, leaseMs, durable }
      const fresh = await insertKey(store, wanted.key, grant, env.lockTimeoutMs)
      replayLikelihood.learn(fresh === null)
      if (fresh !== null && wanted.enqueue) return { type: 'enqueued', row: fresh, fresh: true }
      if (fresh !== null)
        return {
          type: 'granted',
          how: 'reserved',
          row: fresh,
          definition: wanted.definition,
          askedAt,
          session: store.session,
        }
    }
  }
  row ??= await read(store, wanted)
  if (row === null) return wanted.by === 'request' ? 'moved' : { type: 'gone' }

  const decision = decideReservation(row, asking(wanted, holder, env.kind), env.registry, env.settings)
  if (wanted.by !== 'id' && wanted.enqueue && isUnfinished(decision)) {
    const fresh = row.holder === holder
    if (!fresh && mayNotBeWrittenOut(row)) await writeOut(store)
    // The answer to our own insert may have been lost.
    return { type: 'enqueued', row, fresh }
  }
  switch (decision.type) {
    case 'take_over': {
      const { definition, at } = decision
      const leaseMs = env.settings.leaseMsAt(definition, at.recoveryPoint)
      const leaseBoundMs = env.settings.leaseBoundMs(definition)
      const { version, hash: definitionHash } = definition
      const by = { ...at, holder, leaseMs, leaseBoundMs, version, definitionHash }
      const taken = await takeOverKey(store, row, by)
      return taken === null
        ? 'moved'
        : { type: 'granted', how: 'taken_over', row: taken, definition, askedAt, session: store.session }
    }
    case 'ours':
      return {
        type: 'granted',
        how: row.fence === 1 ? 'reserved' : 'taken_over',
        row,
        definition: decision.definition,
        askedAt,
        session: store.session,
      }
    case 'mark_stuck': {
      const { reason, definition } = decision
      const leaseBoundMs = env.settings.leaseBoundMs(definition)
      const by = { holder, reason, leaseBoundMs, lastError: withoutAnError(row) }
      const stuck = await markUnheldKeyStuck(store, row, by)
      return stuck === null
        ? 'moved'
        : { type: 'decided', row: stuck, decision: { type: 'stuck', reason }, markedStuck: true }
    }
    default:
      return { type: 'decided', row, decision, markedStuck: false }
  }
}

/** Then a charge would be made for a request that the database may not know of; and one that is enqueued was promised. */
function beginsWithCall({ phases }: PipelineDefinition): boolean {
  return phases[0]?.kind === 'foreign'
}

/** Whether it is a reservation that its holder did not wait for. Who enqueues it is promised that it will be run. */
function mayNotBeWrittenOut({ recoveryPoint, fence, attempts }: KeyRow): boolean {
  return recoveryPoint === 'started' && fence === 1 && attempts > 0
}

/** Whether somebody is at it, or the completer will be: to take it over, or to mark it stuck, is then its business. */
function isUnfinished({ type }: Decision): boolean {
  return type === 'take_over' || type === 'ours' || type === 'in_flight' || type === 'mark_stuck'
}

/** What to tell a person of a key that has no error to show. */
function withoutAnError({ leaseUntilMs, recoveryPoint }: KeyRow): string {
  return leaseUntilMs === null
    ? `It was given back at '${recoveryPoint}' each time, without an error.`
    : `The last one who ran it, after '${recoveryPoint}', did not give it back: its process died, or froze.`
}

function read(store: Store, wanted: Wanted): Promise<KeyRow | null> {
  switch (wanted.by) {
    case 'request':
      return findKeyToReplay(store, wanted.key.scope, wanted.key.key)
    case 'existing':
      return findKeyToReplay(store, wanted.scope, wanted.key)
    case 'id':
      return findKeyById(store, wanted.id)
  }
}

function asking(wanted: Wanted, holder: string, kind: KeyKind): Asking {
  if (wanted.by === 'id') return { holder, request: null, onlyDue: wanted.onlyDue }
  const fingerprint = wanted.by === 'request' ? wanted.key.fingerprint : wanted.fingerprint
  const request = { pipeline: wanted.definition.name, kind, fingerprint: fingerprint.toString('hex') }
  return { holder, request, onlyDue: false }
}
