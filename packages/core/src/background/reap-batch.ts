import { announce } from '../announce/announce.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { PUT_OFF_LEAST_MS, PUT_OFF_MOST_MS } from '../limits.js'
import type { ExpiredKey, ReapedKey } from '../storage/keys/expired.js'
import { findExpiredKeys } from '../storage/keys/find-expired-keys.js'
import { putOffKeys } from '../storage/keys/put-off-keys.js'
import { reapKeys } from '../storage/keys/reap-keys.js'
import { reapTheseKeys } from '../storage/keys/reap-these-keys.js'
import type { Store } from '../storage/statement.js'

/** The result of one batch. */
export interface Batch {
  readonly found: number
  readonly deleted: number
  readonly held: number
  /** Where the next one continues. */
  readonly lastMs: number | null
}

/** What the statements of one batch share. */
interface BatchParts {
  readonly store: Store
  readonly batchSize: number
  readonly stopping: AbortSignal
}

interface Held {
  readonly keyId: string
  readonly constraint: string | null
}

/** Deletes a batch of expired keys: those that can be deleted, whatever holds the others. */
export async function reapBatch(parts: BatchParts, fromMs: number | null): Promise<Batch> {
  const { store, batchSize } = parts
  const held: Held[] = []
  let found: readonly ExpiredKey[]
  let deleted: number
  try {
    const reaped = await reapKeys(store, batchSize, fromMs)
    deleted = countDeleted(reaped, held)
    found = reaped
  } catch (error) {
    if (!isAboutRows(error)) throw error
    // Something in the application holds one of the rows. Find which, and delete the others.
    found = await findExpiredKeys(store, batchSize, fromMs)
    const keyIds = found.map(({ id }) => id)
    deleted = await reapOrHalve(parts, keyIds, held)
  }
  if (held.length > 0) await putOff(store, held)
  return { found: found.length, deleted, held: held.length, lastMs: found.at(-1)?.expiresMs ?? null }
}

/** Halves a batch that fails until the rows to blame stand alone: few statements where few are to blame. */
async function reapOrHalve(parts: BatchParts, keyIds: readonly string[], held: Held[]): Promise<number> {
  const [first] = keyIds
  if (first === undefined || parts.stopping.aborted) return 0
  try {
    return countDeleted(await reapTheseKeys(parts.store, keyIds), held)
  } catch (error) {
    if (!isAboutRows(error)) throw error
    if (keyIds.length === 1) {
      held.push({ keyId: first, constraint: constraintOf(error) })
      return 0
    }
  }
  const middle = Math.ceil(keyIds.length / 2)
  const before = await reapOrHalve(parts, keyIds.slice(0, middle), held)
  return before + (await reapOrHalve(parts, keyIds.slice(middle), held))
}

/** A trigger or a policy may keep a row without an error. It is held all the same. */
function countDeleted(reaped: readonly ReapedKey[], held: Held[]): number {
  const kept = reaped.filter(({ deleted }) => !deleted)
  held.push(...kept.map(({ id }) => ({ keyId: id, constraint: null })))
  return reaped.length - kept.length
}

async function putOff(store: Store, held: readonly Held[]): Promise<void> {
  const keyIds = held.map(({ keyId }) => keyId)
  await putOffKeys(store, keyIds, { leastMs: PUT_OFF_LEAST_MS, mostMs: PUT_OFF_MOST_MS })
  for (const constraint of new Set(held.map((each) => each.constraint))) {
    const ids = held.filter((each) => each.constraint === constraint).map(({ keyId }) => keyId)
    announce('pawl:reap_held', () => ({ keyIds: ids, constraint }))
  }
}

/**
 * The connection, the server's state, our own statement and rights: no row is to blame, and no other row would fare
 * better.
 */
const NOT_ABOUT_ROWS = /^(?:08|25|42|53|54|57|58|XX)/

/** Constraints, triggers and locks of the application: they concern this row, and are no reason to leave the others. */
function isAboutRows(error: unknown): boolean {
  const sqlState = sqlStateOf(error)
  return sqlState !== null && !NOT_ABOUT_ROWS.test(sqlState)
}

function constraintOf(error: unknown): string | null {
  const { constraint } = error as { readonly constraint?: unknown }
  return typeof constraint === 'string' ? constraint : null
}
