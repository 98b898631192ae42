import { boundedBy, defineStatement, epochMs, msInterval, type Store } from './statement.js'

/** A key that was found finished and expired. */
export interface ExpiredKey {
  readonly id: string
  readonly expiresMs: number
}

/** With what became of it. Not deleted: something of the application's keeps it, without an error. */
export interface ReapedKey extends ExpiredKey {
  readonly deleted: boolean
}

/**
 * From where the last batch of this round ended. The dead entries of the rows that were deleted before stay in the index
 * for as long as any transaction is older, such as a backup: without this, every batch would read all of them again.
 */
const from = (column: string, parameter: string): string =>
  `${column} >= coalesce(to_timestamp(${parameter}::double precision / 1000), '-infinity')`

/** Finished keys past their expiry, through the index that holds only finished ones. */
const expired = (keys: string): string => `
    SELECT id, expires_at FROM ${keys}
     WHERE status = 'finished' AND expires_at <= (SELECT clock_timestamp()) AND ${from('expires_at', '$2')}
     ORDER BY expires_at LIMIT $1::integer
       FOR UPDATE SKIP LOCKED`

/** An array, not a join: however small the table and large the batch, the rows are fetched by the primary key. */
const oneOf = (found: string): string => `= ANY (ARRAY(SELECT id FROM ${found}))`

/** Says once more what must hold of a row that is deleted. */
const deleteExpired = (keys: string, lockTimeout: string): string => `
    DELETE FROM ${keys} AS k USING ${boundedBy(lockTimeout)}
     WHERE k.id ${oneOf('expired')} AND k.status = 'finished'
    RETURNING k.id`

const REAPED = `
  SELECT expired.id, ${epochMs('expired.expires_at')} AS expires_ms, gone.id IS NOT NULL AS deleted
    FROM expired LEFT JOIN gone ON gone.id = expired.id ORDER BY expired.expires_at`

const reapKeysStatement = defineStatement(
  'reap_keys',
  ({ keys }) => `WITH expired AS (${expired(keys)}), gone AS (${deleteExpired(keys, '$3')}) ${REAPED}`,
)

/**
 * Deletes a batch of expired keys, those that expired first. Rows that somebody has locked are left for the next time;
 * one that cannot be deleted fails the whole batch. `lockTimeoutMs`: for rows of the application that refer to them.
 */
export async function reapKeys(
  store: Store,
  limit: number,
  fromMs: number | null,
  lockTimeoutMs: number,
): Promise<ReapedKey[]> {
  const { rows } = await reapKeysStatement(store, [limit, fromMs, String(lockTimeoutMs)])
  return rows.map(readReapedKey)
}

const findExpiredKeysStatement = defineStatement(
  'find_expired_keys',
  ({ keys }) => `WITH expired AS (${expired(keys)})
  SELECT id, ${epochMs('expires_at')} AS expires_ms FROM expired ORDER BY expires_at`,
)

/** What the same batch would be about. */
export async function findExpiredKeys(
  store: Store,
  limit: number,
  fromMs: number | null,
): Promise<ExpiredKey[]> {
  const { rows } = await findExpiredKeysStatement(store, [limit, fromMs])
  return rows.map((row) => ({ id: row['id'] ?? '', expiresMs: Number(row['expires_ms']) }))
}

const reapTheseKeysStatement = defineStatement(
  'reap_these_keys',
  ({ keys }) => `
  WITH expired AS (
    SELECT id, expires_at FROM ${keys}
     WHERE id = ANY ($1::uuid[]) AND status = 'finished' AND expires_at <= clock_timestamp()
       FOR UPDATE SKIP LOCKED
  ), gone AS (${deleteExpired(keys, '$2')}) ${REAPED}`,
)

/** Deletes keys that were found before and are still finished, expired and free: all of them, or an error and none. */
export async function reapTheseKeys(
  store: Store,
  keyIds: readonly string[],
  lockTimeoutMs: number,
): Promise<ReapedKey[]> {
  const { rows } = await reapTheseKeysStatement(store, [keyIds, String(lockTimeoutMs)])
  return rows.map(readReapedKey)
}

const putOffKeysStatement = defineStatement(
  'put_off_keys',
  ({ keys }) => `
  WITH held AS (
    SELECT id FROM ${keys}
     WHERE id = ANY ($1::uuid[]) AND status = 'finished' AND expires_at <= clock_timestamp()
       FOR NO KEY UPDATE SKIP LOCKED
  )
  UPDATE ${keys} AS k
     SET expires_at = clock_timestamp()
         + least(greatest(clock_timestamp() - k.updated_at, ${msInterval('$2')}), ${msInterval('$3')})
   WHERE k.id ${oneOf('held')} AND k.status = 'finished'`,
)

/**
 * Lets keys that cannot be deleted expire later: as much later as they are old, so that a million of them do not come up
 * every round. They go on replaying meanwhile, which is no harm.
 */
export async function putOffKeys(
  store: Store,
  keyIds: readonly string[],
  by: { readonly leastMs: number; readonly mostMs: number },
): Promise<void> {
  await putOffKeysStatement(store, [keyIds, by.leastMs, by.mostMs])
}

const reapEffectsStatement = defineStatement(
  'reap_effects',
  ({ effects }) => `
  WITH old AS (
    SELECT id FROM ${effects}
     WHERE created_at <= (SELECT clock_timestamp() - ${msInterval('$3')}) AND ${from('created_at', '$2')}
     ORDER BY created_at LIMIT $1::integer
       FOR UPDATE SKIP LOCKED
  )
  DELETE FROM ${effects} AS e USING ${boundedBy('$4')} WHERE e.id ${oneOf('old')}
  RETURNING ${epochMs('e.created_at')} AS created_ms`,
)

/** Deletes a batch of old effects, the oldest first; gives when each was settled. */
export async function reapEffects(
  store: Store,
  limit: number,
  fromMs: number | null,
  retentionMs: number,
  lockTimeoutMs: number,
): Promise<number[]> {
  const { rows } = await reapEffectsStatement(store, [limit, fromMs, retentionMs, String(lockTimeoutMs)])
  return rows.map((row) => Number(row['created_ms']))
}

function readReapedKey(row: Readonly<Record<string, string | null>>): ReapedKey {
  return { id: row['id'] ?? '', expiresMs: Number(row['expires_ms']), deleted: row['deleted'] === 't' }
}
