import { boundedBy, defineStatement, msInterval, type Store } from './statement.js'

/** Finished keys past their expiry, through the index that holds only finished ones. */
const expired = (keys: string, limit: string): string => `
    SELECT id FROM ${keys}
     WHERE status = 'finished' AND expires_at <= (SELECT clock_timestamp())
     ORDER BY expires_at LIMIT ${limit}::integer`

const reapKeysStatement = defineStatement(
  'reap_keys',
  ({ keys }) => `
  WITH expired AS (${expired(keys, '$1')} FOR UPDATE SKIP LOCKED)
  DELETE FROM ${keys} AS k USING ${boundedBy('$2')}, expired
   WHERE k.id = expired.id AND k.status = 'finished'
  RETURNING k.id`,
)

/** Deletes a batch of expired keys; gives how many. Rows that somebody has locked are left for the next time. */
export async function reapKeys(store: Store, limit: number, lockTimeoutMs: number): Promise<number> {
  const { rows } = await reapKeysStatement(store, [limit, String(lockTimeoutMs)])
  return rows.length
}

const findExpiredKeysStatement = defineStatement('find_expired_keys', ({ keys }) => expired(keys, '$1'))

export async function findExpiredKeys(store: Store, limit: number): Promise<string[]> {
  const { rows } = await findExpiredKeysStatement(store, [limit])
  return rows.map((row) => row['id'] ?? '')
}

const reapTheseKeysStatement = defineStatement(
  'reap_these_keys',
  ({ keys }) => `
  DELETE FROM ${keys} AS k USING ${boundedBy('$2')}
   WHERE k.id = ANY ($1::uuid[]) AND k.status = 'finished' AND k.expires_at <= clock_timestamp()
  RETURNING k.id`,
)

/** The same for keys that were found before: all of them, or an error and none. */
export async function reapTheseKeys(
  store: Store,
  keyIds: readonly string[],
  lockTimeoutMs: number,
): Promise<number> {
  const { rows } = await reapTheseKeysStatement(store, [keyIds, String(lockTimeoutMs)])
  return rows.length
}

const putOffKeysStatement = defineStatement(
  'put_off_keys',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET expires_at = clock_timestamp()
         + least(greatest(clock_timestamp() - k.updated_at, ${msInterval('$2')}), ${msInterval('$3')})
    FROM ${boundedBy('$4')}
   WHERE k.id = ANY ($1::uuid[]) AND k.status = 'finished'`,
)

/**
 * Lets keys that cannot be deleted expire later: as much later as they are old, so that a million of them do not come up
 * every round. They go on replaying meanwhile, which is no harm.
 */
export async function putOffKeys(
  store: Store,
  keyIds: readonly string[],
  by: { readonly leastMs: number; readonly mostMs: number; readonly lockTimeoutMs: number },
): Promise<void> {
  await putOffKeysStatement(store, [keyIds, by.leastMs, by.mostMs, String(by.lockTimeoutMs)])
}

const reapEffectsStatement = defineStatement(
  'reap_effects',
  ({ effects }) => `
  WITH old AS (
    SELECT id FROM ${effects} WHERE created_at <= (SELECT clock_timestamp() - ${msInterval('$2')})
     ORDER BY created_at LIMIT $1::integer FOR UPDATE SKIP LOCKED
  )
  DELETE FROM ${effects} AS e USING ${boundedBy('$3')}, old WHERE e.id = old.id
  RETURNING e.id`,
)

/** Deletes a batch of old effects; gives how many. */
export async function reapEffects(
  store: Store,
  limit: number,
  retentionMs: number,
  lockTimeoutMs: number,
): Promise<number> {
  const { rows } = await reapEffectsStatement(store, [limit, retentionMs, String(lockTimeoutMs)])
  return rows.length
}
