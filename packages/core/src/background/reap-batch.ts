import { announce } from '../announce/announce.js'
import { isAboutRows } from '../driver/postgres-error.js'
import { PUT_OFF_LEAST_MS, PUT_OFF_MOST_MS } from '../limits.js'
import type { ExpiredKey, ReapedKey } from '../storage/keys/expired.js'
import { findExpiredKeys } from '../storage/keys/find-expired-keys.js'
import { putOffKeys } from '../storage/keys/put-off-keys.js'
import { reapKeys } from '../storage/keys/reap-keys.js'
import { reapTheseKeys } from '../storage/keys/reap-these-keys.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'

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

/** An expired key that rows, triggers or policies of the application keep from being deleted. */
interface Undeletable {
  readonly key: ExpiredKey
  readonly constraint: string | null
}

/** Deletes a batch of expired keys: those that can be deleted, whatever keeps the others. */
export async function reapBatch(parts: BatchParts, fromMs: number | null): Promise<Batch> {
  const { store, batchSize } = parts
  const undeletable: Undeletable[] = []
  let found: readonly ExpiredKey[]
  let deleted: number
  if (store.tables.spread.overServers) {
    found = await findExpiredKeys(store, batchSize, fromMs)
    const counts = await forEachShard(store, found, async (keys) => [
      await reapOrHalve(parts, keys, undeletable),
    ])
    deleted = counts.reduce((a, b) => a + b, 0)
  } else {
    try {
      const reaped = await reapKeys(store, batchSize, fromMs)
      found = reaped
      deleted = countDeleted(
        reaped.filter(({ isCounted }) => !isCounted),
        undeletable,
      )
      const counted = reaped.filter(({ isCounted }) => isCounted)
      deleted += await reapOrHalve(parts, counted, undeletable)
    } catch (error) {
      if (!isAboutRows(error)) throw error
      // Something in the application keeps one of the rows. Find which, and delete the others.
      found = await findExpiredKeys(store, batchSize, fromMs)
      deleted = await reapOrHalve(parts, found, undeletable)
    }
  }
  if (undeletable.length > 0) await putOff(store, undeletable)
  return { found: found.length, deleted, held: undeletable.length, lastMs: found.at(-1)?.expiresMs ?? null }
}

/** Halves a batch that fails until the rows to blame stand alone: few statements where few are to blame. */
async function reapOrHalve(
  parts: BatchParts,
  keys: readonly ExpiredKey[],
  undeletable: Undeletable[],
): Promise<number> {
  const [first] = keys
  if (first === undefined || parts.stopping.aborted) return 0
  try {
    return countDeleted(await reapTheseKeys(parts.store, keys), undeletable)
  } catch (error) {
    if (!isAboutRows(error)) throw error
    if (keys.length === 1) {
      undeletable.push({ key: first, constraint: constraintOf(error) })
      return 0
    }
  }
  const middle = Math.ceil(keys.length / 2)
  const before = await reapOrHalve(parts, keys.slice(0, middle), undeletable)
  return before + (await reapOrHalve(parts, keys.slice(middle), undeletable))
}

/** A trigger or a policy may keep a row without an error. It is undeletable all the same. */
function countDeleted(reaped: readonly ReapedKey[], undeletable: Undeletable[]): number {
  const kept = reaped.filter(({ deleted }) => !deleted)
  undeletable.push(...kept.map((key) => ({ key, constraint: null })))
  return reaped.length - kept.length
}

async function putOff(store: Store, undeletable: readonly Undeletable[]): Promise<void> {
  const keys = undeletable.map(({ key }) => key)
  await forEachShard(store, keys, async (group) => {
    await putOffKeys(store, group, { leastMs: PUT_OFF_LEAST_MS, mostMs: PUT_OFF_MOST_MS })
    return []
  })
  for (const constraint of new Set(undeletable.map((each) => each.constraint))) {
    const ids = undeletable.filter((each) => each.constraint === constraint).map(({ key }) => key.id)
    announce('pawl:reap_held', () => ({ keyIds: ids, constraint }))
  }
}

function constraintOf(error: unknown): string | null {
  const { constraint } = error as { readonly constraint?: unknown }
  return typeof constraint === 'string' ? constraint : null
}
