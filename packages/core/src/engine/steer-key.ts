import { randomUUID } from 'node:crypto'
import { isConnectionLost, PawlError } from '../errors.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { FORGETTINGS_SEEN, INTERVENTIONS_SINCE, STEER_ROUNDS } from '../limits.js'
import { viewKey } from './key-view.js'
import { viewIntervention } from './view-intervention.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { Store } from '../storage/statement.js'
import { sealBefore } from '../storage/interventions/sealed-note.js'
import { findForgetting } from '../storage/interventions/find-forgetting.js'
import { findLatestInterventions } from '../storage/interventions/find-interventions.js'
import { isNoted } from '../storage/interventions/is-noted.js'
import type { Steering } from '../storage/keys/steered.js'
import { findNamed } from './find-named.js'
import type { Because } from '../because.js'
import type { Intervention, InterventionView, KeyReference, SteerOptions } from './intervention.js'

/** lock_not_available */
const LOCKED = '55P03'

/** foreign_key_violation, and restrict_violation, which PostgreSQL 18 distinguishes from it. */
const REFERRED_TO = new Set(['23503', '23001'])

/** Where a step is taken: on a session of an operator's pool, or of an engine's. */
export interface SteeringContext {
  with<T>(work: (store: Store) => Promise<T>): Promise<T>
}

/** What an intervention wants to do to a row: write to it, or nothing. */
export type Step =
  | {
      readonly type: 'write'
      /** For the note: what was given besides the reason. */
      readonly given: object
      /** Returns null when the row has moved on. */
      readonly write: (store: Store, steering: Steering) => Promise<KeyRow | null>
    }
  | { readonly type: 'refuse'; readonly detail: string }
  /** It is already as wanted. */
  | { readonly type: 'nothing' }

/** Which step is wanted, and for which key. */
interface Wanted extends SteerOptions {
  readonly of: KeyReference
  readonly because: Because
}

/**
 * Reads the key, decides, and writes if the row is still as it was read; otherwise it reads and decides again. A
 * connection that breaks on the way is replaced: the note of the change shows whether it went through, even if others
 * have moved on from there.
 */
export async function steerKey(
  context: SteeringContext,
  wanted: Wanted,
  decide: (row: KeyRow, store: Store) => Step | Promise<Step>,
): Promise<Intervention> {
  const { of } = wanted
  const holder = randomUUID()
  const seen: Seen = { row: null }
  let why: unknown = null
  for (let round = 0; round < STEER_ROUNDS; round++) {
    try {
      const end = await context.with((store) =>
        steerOnce(store, wanted, { holder, isRepeat: round > 0, seen }, decide),
      )
      if (end.type !== 'moved') return end
      why = null
    } catch (error) {
      if (!mayPass(error) && !isReferredTo(error)) throw error
      why = error
      // It has waited long enough already, or would meet the same again.
      if (sqlStateOf(error) === LOCKED || isReferredTo(error)) break
    }
  }
  const row = seen.row ?? (await context.with((store) => findNamed(store, of)))
  // If the connection broke every time, we have no answer: the change may have been made.
  if (why instanceof PawlError) throw why
  if (row === null) return { type: 'not_found', by: null }
  return { type: 'refused', key: viewKey(row), detail: whyNot(why), by: null }
}

/** The row as it was last read: a step that deletes it leaves nothing else to show. */
interface Seen {
  row: KeyRow | null
}

function whyNot(error: unknown): string {
  if (sqlStateOf(error) === LOCKED)
    return 'Its row is locked by a transaction that has not ended. Try again when it has.'
  if (!isReferredTo(error))
    return 'It changed every time Pawl looked at it: somebody else is working on it. Try again.'
  const { table, constraint } = error as { readonly table?: string; readonly constraint?: string }
  return `A row of the application${table === undefined ? '' : ` in '${table}'`} refers to it (constraint '${constraint ?? 'unknown'}'). Delete that row first, or have the constraint say ON DELETE SET NULL.`
}

const isReferredTo = (error: unknown): boolean => REFERRED_TO.has(sqlStateOf(error) ?? '')

async function steerOnce(
  store: Store,
  { of, because, dryRun = false, ifRevision }: Wanted,
  { holder, isRepeat, seen }: { readonly holder: string; readonly isRepeat: boolean; readonly seen: Seen },
  decide: (row: KeyRow, store: Store) => Step | Promise<Step>,
): Promise<Intervention | { readonly type: 'moved' }> {
  const read = await findNamed(store, of)
  const known = read ?? seen.row
  if (known === null) return gone(store, of, ifRevision)
  if (isRepeat && (await isNoted(store, known.scope, holder))) return { type: 'done', key: viewKey(known) }
  const hasChanged = ifRevision !== undefined && read?.revision !== ifRevision
  if (hasChanged) return overtaken(store, known, read, ifRevision)
  if (read === null) return { type: 'not_found', by: null }
  seen.row = read
  const step = await decide(read, store)
  if (step.type === 'refuse') return { type: 'refused', key: viewKey(read), detail: step.detail, by: null }
  if (step.type === 'nothing') return { type: dryRun ? 'would_be_done' : 'done', key: viewKey(read) }
  if (dryRun) return { type: 'would_be_done', key: viewKey(read) }
  const { actor, reason } = because
  const detailJson = JSON.stringify({
    before: sealBefore(store.tables, read, before(read)),
    given: step.given,
  })
  const written = await step.write(store, {
    read,
    holder,
    note: { actor, reason, detailJson },
  })
  return written === null ? { type: 'moved' } : { type: 'done', key: viewKey(written) }
}

/** Refuses a step whose key is no longer as it was looked at, and says who was first. `read`: null if it is gone. */
async function overtaken(
  store: Store,
  known: KeyRow,
  read: KeyRow | null,
  ifRevision: number,
): Promise<Intervention> {
  const latest = await findLatestInterventions(store, known, INTERVENTIONS_SINCE)
  const first = latest.find(({ detailJson }) => (revisionBefore(detailJson) ?? -1) >= ifRevision)
  const by = first === undefined ? null : viewIntervention(first)
  return { type: 'refused', key: viewKey(known), detail: whoWasFirst(read, by), by }
}

/** There is no such key. Whoever has looked at it before is told who forgot it since. */
async function gone(store: Store, of: KeyReference, ifRevision: number | undefined): Promise<Intervention> {
  if (ifRevision === undefined) return { type: 'not_found', by: null }
  const named = 'keyId' in of ? { id: of.keyId, scope: null, key: null } : { id: null, ...of }
  const forgetting = await findForgetting(store, named, FORGETTINGS_SEEN)
  return { type: 'not_found', by: forgetting === null ? null : viewIntervention(forgetting) }
}

function whoWasFirst(read: KeyRow | null, by: InterventionView | null): string {
  if (by !== null)
    return `Somebody was first: ${by.actor} did '${by.action}' at ${by.at.toISOString()}. Look at it again.`
  const since = 'It has changed since it was looked at'
  return read === null
    ? `${since}, and was deleted.`
    : `${since}: it is ${read.status} now, at '${read.recoveryPoint}'. Look at it again.`
}

/** The revision at which somebody stepped in. */
function revisionBefore(detailJson: string): number | null {
  const detail = JSON.parse(detailJson) as { readonly before?: { readonly revision?: number } | null } | null
  return detail?.before?.revision ?? null
}

/** What the next reader wants to know about a row that is no longer as it was. */
function before(row: KeyRow) {
  const { status, stuckReason, recoveryPoint, fence, revision, attempts, retries, effectEpoch, lastError } =
    row
  const { intent } = row
  const leaseUntil = row.leaseUntilMs === null ? null : new Date(row.leaseUntilMs).toISOString()
  const shown = {
    status,
    stuckReason,
    recoveryPoint,
    fence,
    revision,
    leaseUntil,
    attempts,
    retries,
    call: intent === null ? null : { kind: intent.kind, phase: intent.phase },
    effectEpoch,
  }
  return { ...shown, lastError }
}

/** Lost connections, locks, a note that already exists, and conflicts where the database's default is not READ COMMITTED. */
function mayPass(error: unknown): boolean {
  const sqlState = sqlStateOf(error)
  if (sqlState !== null)
    return sqlState === LOCKED || sqlState === '23505' || sqlState === '40001' || sqlState === '40P01'
  return isConnectionLost(error)
}
