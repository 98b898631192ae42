import { randomUUID } from 'node:crypto'
import { isConnectionLost, PawlError } from '../errors.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { STEER_ROUNDS } from '../limits.js'
import { viewKey } from '../engine/key-view.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { Store } from '../storage/statement.js'
import { isNoted } from '../storage/interventions/is-noted.js'
import type { Steering } from '../storage/keys/steered.js'
import { findNamed } from './find-named.js'
import type { Because, Intervention, KeyReference, SteerOptions } from './operator.js'
import type { OperatorContext } from './operator-context.js'

/** lock_not_available */
const LOCKED = '55P03'

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
  context: OperatorContext,
  wanted: Wanted,
  decide: (row: KeyRow) => Step,
): Promise<Intervention> {
  const { of } = wanted
  const holder = randomUUID()
  let last: { readonly row: KeyRow | null; readonly why: unknown } = { row: null, why: null }
  for (let round = 0; round < STEER_ROUNDS; round++) {
    try {
      const end = await context.with((store) =>
        steerOnce(store, wanted, { holder, isRepeat: round > 0 }, decide),
      )
      if (end.type !== 'moved') return end
      last = { row: end.row, why: null }
    } catch (error) {
      if (!mayPass(error)) throw error
      last = { ...last, why: error }
      // It has waited long enough already.
      if (sqlStateOf(error) === LOCKED) break
    }
  }
  const row = last.row ?? (await context.with((store) => findNamed(store, of)))
  // If the connection broke every time, we have no answer: the change may have been made.
  if (last.why instanceof PawlError) throw last.why
  if (row === null) return { type: 'not_found' }
  const detail =
    sqlStateOf(last.why) === LOCKED
      ? 'Its row is locked by a transaction that has not ended. Try again when it has.'
      : 'It changed every time Pawl looked at it: somebody else is working on it. Try again.'
  return { type: 'refused', key: viewKey(row), detail }
}

async function steerOnce(
  store: Store,
  { of, because, dryRun = false }: Wanted,
  { holder, isRepeat }: { readonly holder: string; readonly isRepeat: boolean },
  decide: (row: KeyRow) => Step,
): Promise<Intervention | { readonly type: 'moved'; readonly row: KeyRow }> {
  const read = await findNamed(store, of)
  if (read === null) return { type: 'not_found' }
  if (isRepeat && (await isNoted(store, read.scope, holder))) return { type: 'done', key: viewKey(read) }
  const step = decide(read)
  if (step.type === 'refuse') return { type: 'refused', key: viewKey(read), detail: step.detail }
  if (dryRun) return { type: 'would_be_done', key: viewKey(read) }
  const { actor, reason } = because
  const detailJson = JSON.stringify({ before: before(read), given: step.given })
  const written = await step.write(store, {
    read,
    holder,
    note: { actor, reason, detailJson },
  })
  return written === null ? { type: 'moved', row: read } : { type: 'done', key: viewKey(written) }
}

/** What the next reader wants to know about a row that is no longer as it was. */
function before(row: KeyRow): object {
  const { status, stuckReason, recoveryPoint, fence, attempts, retries, intent, effectEpoch, lastError } = row
  const leaseUntil = row.leaseUntilMs === null ? null : new Date(row.leaseUntilMs).toISOString()
  const shown = {
    status,
    stuckReason,
    recoveryPoint,
    fence,
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
