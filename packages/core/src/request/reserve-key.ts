import type { Session } from '../driver/session.js'
import type { PawlError } from '../errors.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { Registry } from '../pipeline/registry.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { findKeyById } from '../storage/keys/find-key-by-id.js'
import { findKeyToReplay, findSameKey } from '../storage/keys/find-key.js'
import { findLastEffect, type EffectsBefore, type LastEffect } from '../storage/effects/find-last-effect.js'
import type { DueKey } from '../storage/keys/due-keys.js'
import { type FirstGrant, insertKey, type NewKey } from '../storage/keys/insert-key.js'
import { insertLimitedKey } from '../storage/keys/insert-limited-key.js'
import { markUnheldKeyStuck } from '../storage/keys/mark-unheld-key-stuck.js'
import { takeOverKey } from '../storage/keys/take-over-key.js'
import { writeOut } from '../storage/keys/write-out.js'
import type { Store } from '../storage/statement.js'
import type { MetLimit, ScopeLimits } from '../storage/usage/scope-limit.js'
import { STORED_RETRY_MS, UNFINISHED_RETRY_MS } from '../limits.js'
import { askForKey, type NoAnswer } from './ask-for-key.js'
import { type Asking, type Decision, decideReservation } from './decide-reservation.js'
import { type CheckedRequest, newKeyOf } from './execute-request.js'
import type { Replica } from './replica.js'
import type { RequestContext } from './request-context.js'

/** A key that is ours to run. */
export interface Granted {
  readonly type: 'granted'
  readonly how: 'reserved' | 'taken_over'
  readonly row: KeyRow
  readonly definition: PipelineDefinition
  /** On this process's monotonic clock, before asking for the grant: a lease counted from here never seems too long. */
  readonly askedAt: number
  /** The session that the key was asked for on, to continue with or to release. */
  readonly session: Session
}

/** Why a key is not ours to run. */
export type NotGranted = NoAnswer | Decided | Expired | Limited

/** The key is new, and its scope has reached a limit. */
interface Limited {
  readonly type: 'limited'
  readonly limit: MetLimit['limit']
  readonly of: MetLimit['of']
  readonly max: number
  readonly perMs: number | null
  readonly retryAfterMs: number
}

/** The key was deleted after it had an effect. Running it again would have the effect again. */
interface Expired {
  readonly type: 'expired'
  readonly effect: LastEffect
}

export interface Decided {
  readonly type: 'decided'
  readonly row: KeyRow
  /** `mark_stuck` becomes `stuck` once it has been written. */
  readonly decision: Exclude<Decision, { type: 'take_over' | 'ours' | 'mark_stuck' }>
  /** We have just marked it stuck. */
  readonly markedStuck: boolean
  /** Who was asked for the row. */
  readonly from: 'primary' | 'replica' | 'cache'
}

/** The key is there, and runs or will be run without us. `fresh`: we inserted it. */
export interface Enqueued {
  readonly type: 'enqueued'
  readonly row: KeyRow
  readonly fresh: boolean
}

/**
 * Gets a request's key to run it at once, or finds out why it cannot. No user code has run before, and none runs unless the
 * key is granted. `among`: the definitions under which a row may run. If the input is invalid and there is no such key yet,
 * throws what is wrong with it.
 */
export async function reserveToRun(
  engine: RequestContext,
  request: CheckedRequest,
  among: Registry,
): Promise<Granted | NotGranted> {
  const replayed = engine.replica === null ? null : await replayFrom(engine.replica, engine, request, among)
  if (replayed !== null) return replayed
  const { definition } = request
  const leaseMs = engine.settings.leaseMsAt(definition, 'started')
  const durable = beginsWithCall(definition)
  const limits = engine.limits.of(request.scope, definition)
  const reservation = await askForKey(engine, async (store, holder) => {
    const askedAt = performance.now()
    const met = await insertOrFind(engine, store, request, { holder, leaseMs, durable }, limits)
    if (met.type === 'inserted') return grant('reserved', met.row, definition, askedAt, store)
    if (met.type !== 'found') return met
    return takeOver(engine, store, met.row, askingFor(request, holder), among, askedAt)
  })
  if (reservation.type === 'invalid') throw reservation.error
  return reservation
}

/**
 * Makes sure that the completer runs a request. If the input is invalid and there is no such key yet, throws what is wrong
 * with it.
 */
export async function reserveToEnqueue(
  engine: RequestContext,
  request: CheckedRequest,
): Promise<Enqueued | NotGranted> {
  const { replica, registry, settings } = engine
  const replayed = replica === null ? null : await replayFrom(replica, engine, request, registry)
  if (replayed !== null) return replayed
  const limits = engine.limits.of(request.scope, request.definition)
  const reservation = await askForKey(engine, async (store, holder) => {
    // Nobody holds it, and whoever enqueues it is promised that it will run.
    const met = await insertOrFind(engine, store, request, { holder, leaseMs: null, durable: true }, limits)
    if (met.type === 'inserted') return { type: 'enqueued', row: met.row, fresh: true } as const
    if (met.type !== 'found') return met
    const { row } = met
    const decision = decideReservation(row, askingFor(request, holder), registry, settings)
    if (!isUnfinished(decision)) return decided(row, decision)
    // The answer to our own insert may have been lost.
    const fresh = row.holder === holder
    if (!fresh && mayNotBeWrittenOut(row)) await writeOut(store)
    return { type: 'enqueued', row, fresh } as const
  })
  if (reservation.type === 'invalid') throw reservation.error
  return reservation
}

/** Returns null for everything but a replay: whatever else there is to say about a key, the primary says it. */
async function replayFrom(
  replica: Replica,
  { settings }: RequestContext,
  request: CheckedRequest,
  among: Registry,
): Promise<Decided | null> {
  const row = await replica.findFinished(request.scope, request.key)
  if (row === null) return null
  const decision = decideReservation(row, askingFor(request, NOBODY), among, settings)
  return decision.type === 'replay' ? decided(row, decision, 'replica') : null
}

/** The holder of a key that is only looked at. */
export const NOBODY = ''

type ReservedAgain = Granted | NotGranted | { readonly type: 'gone' }

/** Gets a key by its id, as a person wants it: its back-off is not waited for. */
export function reserveById(engine: RequestContext, id: string): Promise<ReservedAgain> {
  return reserveFound(engine, (store) => findKeyById(store, id), false)
}

/** Gets a key that was found a while ago, if its back-off is over. */
export function reserveDue(engine: RequestContext, due: DueKey): Promise<ReservedAgain> {
  return reserveFound(engine, (store) => findSameKey(store, due), true)
}

function reserveFound(
  engine: RequestContext,
  find: (store: Store) => Promise<KeyRow | null>,
  onlyDue: boolean,
): Promise<ReservedAgain> {
  return askForKey(engine, async (store, holder) => {
    const askedAt = performance.now()
    const row = await find(store)
    if (row === null) return { type: 'gone' } as const
    return takeOver(engine, store, row, { holder, request: null, onlyDue }, engine.registry, askedAt)
  })
}

/** What we met under a request's key. */
type Met =
  | { readonly type: 'inserted'; readonly row: KeyRow }
  | { readonly type: 'found'; readonly row: KeyRow }
  | { readonly type: 'moved' }
  | Expired
  | Limited
  /** There is no such key, and none may be inserted. */
  | { readonly type: 'invalid'; readonly error: PawlError }

/** A request whose input no longer validates can only find a key that is already there. */
async function insertOrFind(
  engine: RequestContext,
  store: Store,
  request: CheckedRequest,
  first: FirstGrant,
  limits: ScopeLimits | null,
): Promise<Met> {
  const { replayLikelihood } = engine
  const { scope, key, input } = request
  const isValid = input.type === 'valid'
  // Over servers, the INSERT itself does not look, and would wait for whoever is about to change the row.
  const looksFirst = !isValid || replayLikelihood.isHigh || store.tables.spread.overServers
  let row = looksFirst ? await findKeyToReplay(store, scope, key) : null
  if (!isValid) return row === null ? input : { type: 'found', row }
  if (row !== null) replayLikelihood.learn(true)
  else {
    // Over servers, nor does it look for effects. The key was looked for first: once it is deleted, they can be seen.
    const before = store.tables.spread.overServers ? await findLastEffect(store, scope, key) : null
    const spent = before === null ? null : spentBy(engine, before)
    if (spent !== null) return spent
    const newKey = {
      ...newKeyOf(request, input.json),
      undoneBefore: before?.undone ?? 0,
      traceparent: engine.tracing.current?.traceparent() ?? null,
    }
    const inserted = await insert(engine, store, newKey, first, limits)
    replayLikelihood.learn(inserted === null)
    if (inserted?.type === 'inserted') return inserted
    row = await findKeyToReplay(store, scope, key)
    // Another attempt of the same request may have had the last place: a duplicate is not refused for that.
    if (row === null && inserted !== null) return inserted
  }
  if (row !== null) return { type: 'found', row }
  if (engine.runsAgain) return { type: 'moved' }
  return spentBy(engine, await findLastEffect(store, scope, key)) ?? { type: 'moved' }
}

/** Returns null when somebody has the key, or an effect of it is known. */
async function insert(
  { runsAgain }: RequestContext,
  store: Store,
  newKey: NewKey,
  first: FirstGrant,
  limits: ScopeLimits | null,
): Promise<Extract<Met, { type: 'inserted' | 'limited' }> | null> {
  if (limits === null) {
    const row = await insertKey(store, newKey, first, runsAgain)
    return row === null ? null : { type: 'inserted', row }
  }
  const result = await insertLimitedKey(store, newKey, first, runsAgain, limits)
  if (result.type === 'inserted') return result
  if (result.type === 'not_inserted') return null
  return limitedBy(result, limits)
}

function limitedBy({ limit, of, waitMs }: MetLimit, limits: ScopeLimits): Limited {
  const {
    newKeys = null,
    unfinished,
    storedBytes,
  } = (of === 'scope' ? limits.ofScope : limits.ofPipeline) ?? {}
  switch (limit) {
    case 'unfinished':
      return {
        type: 'limited',
        limit,
        of,
        max: unfinished ?? 0,
        perMs: null,
        retryAfterMs: UNFINISHED_RETRY_MS,
      }
    case 'stored_bytes':
      return { type: 'limited', limit, of, max: storedBytes ?? 0, perMs: null, retryAfterMs: STORED_RETRY_MS }
    case 'new_keys': {
      const { max = 0, perMs = null } = newKeys ?? {}
      return { type: 'limited', limit, of, max, perMs, retryAfterMs: waitMs ?? 0 }
    }
  }
}

/** Returns null when nothing keeps the key from being reserved, as far as effects are concerned. */
function spentBy({ runsAgain }: RequestContext, { last }: EffectsBefore): Expired | null {
  return runsAgain || last === null ? null : { type: 'expired', effect: last }
}

async function takeOver(
  { settings, limits }: RequestContext,
  store: Store,
  row: KeyRow,
  asking: Asking,
  among: Registry,
  askedAt: number,
): Promise<Granted | Decided | { readonly type: 'moved' }> {
  const { holder } = asking
  const decision = decideReservation(row, asking, among, settings)
  switch (decision.type) {
    case 'take_over': {
      const { definition, at } = decision
      const leaseMs = settings.leaseMsAt(definition, at.recoveryPoint)
      const leaseBoundMs = settings.leaseBoundMs(definition)
      const { version, hash: definitionHash } = definition
      const by = { ...at, holder, leaseMs, leaseBoundMs, version, definitionHash }
      const taken = await takeOverKey(store, row, by)
      return taken === null ? { type: 'moved' } : grant('taken_over', taken, definition, askedAt, store)
    }
    case 'ours':
      // Under limits, nobody has waited for the disk yet.
      if (limits.areOn(decision.definition) && row.fence === 1 && beginsWithCall(decision.definition))
        await writeOut(store)
      return grant(row.fence === 1 ? 'reserved' : 'taken_over', row, decision.definition, askedAt, store)
    case 'mark_stuck': {
      const { reason, definition } = decision
      const leaseBoundMs = settings.leaseBoundMs(definition)
      const by = { holder, reason, leaseBoundMs, lastError: withoutAnError(row) }
      const stuck = await markUnheldKeyStuck(store, row, by)
      return stuck === null
        ? { type: 'moved' }
        : { ...decided(stuck, { type: 'stuck', reason }), markedStuck: true }
    }
    default:
      return decided(row, decision)
  }
}

export function decided(
  row: KeyRow,
  decision: Decided['decision'],
  from: Decided['from'] = 'primary',
): Decided {
  return { type: 'decided', row, decision, markedStuck: false, from }
}

function grant(
  how: Granted['how'],
  row: KeyRow,
  definition: PipelineDefinition,
  askedAt: number,
  { session }: Store,
): Granted {
  return { type: 'granted', how, row, definition, askedAt, session }
}

export function askingFor({ definition, kind, fingerprint }: CheckedRequest, holder: string): Asking {
  const request = { pipeline: definition.name, kind, fingerprint }
  return { holder, request, onlyDue: false }
}

/** Such a pipeline would make a charge for a request that the database may not know about. */
function beginsWithCall({ phases }: PipelineDefinition): boolean {
  return phases[0]?.kind === 'foreign'
}

/** Whether the row is a reservation whose holder did not wait until it was written out. */
function mayNotBeWrittenOut({ recoveryPoint, fence, attempts }: KeyRow): boolean {
  return recoveryPoint === 'started' && fence === 1 && attempts > 0
}

/** Whether somebody works on the key or the completer will: taking it over or marking it stuck is then their business. */
function isUnfinished(
  decision: Decision,
): decision is Extract<Decision, { type: 'take_over' | 'ours' | 'in_flight' | 'mark_stuck' }> {
  const { type } = decision
  return type === 'take_over' || type === 'ours' || type === 'in_flight' || type === 'mark_stuck'
}

/** What to tell a person about a key that has no error to show. */
function withoutAnError({ leaseUntilMs, recoveryPoint }: KeyRow): string {
  return leaseUntilMs === null
    ? `It was given back at '${recoveryPoint}' each time, without an error.`
    : `The last holder, which ran the key from '${recoveryPoint}', did not give it back: its process died or froze.`
}
