import type { RunnableVersion } from './due-keys.js'
import { leaseIsOver } from './lease-is-over.js'
import { eachKeyOf, IS_THAT_KEY } from './named-keys.js'
import { defineStatement, msInterval, NOW, type Store, unnested } from '../statement.js'
import type { Tables } from '../tables.js'
import { freeingBytes } from '../usage/stored-bytes.js'

/** A version whose keys commit everything at once: a key that has not committed has left nothing behind. */
export interface AtomicVersion extends RunnableVersion {
  readonly forgetAfterMs: number
}

/** Whether the key `k` of an atomic handler has committed nothing, and nobody has come back for it. */
export const isLeft = (v: Record<'hash' | 'afterMs' | 'leaseBoundMs', string>): string => `
              k.definition_hash = ${v.hash} AND k.recovery_point = 'started'
          AND k.created_at <= (${NOW} - ${msInterval(v.afterMs)})
          AND k.intent IS NULL AND ${leaseIsOver('k.', v.leaseBoundMs)}`

const old = (tables: Tables): string => `
  WITH old AS (
    SELECT found.scope, found.key, found.stored_bytes
      FROM ${unnested('$1::text[]', '$2::integer[]', '$3::text[]', '$4::double precision[]', '$6::double precision[]')}
           AS v (pipeline, version, definition_hash, forget_after_ms, lease_bound_ms)
     CROSS JOIN LATERAL (
       SELECT k.scope, k.key, k.stored_bytes FROM ${tables.keys} AS k
        WHERE k.status = 'running' AND k.pipeline = v.pipeline AND k.version = v.version AND k.kind = 'atomic'
          AND ${isLeft({ hash: 'v.definition_hash', afterMs: 'v.forget_after_ms', leaseBoundMs: 'v.lease_bound_ms' })}
        ORDER BY k.created_at LIMIT $5::integer FOR UPDATE SKIP LOCKED
     ) AS found
  )`

const forget = (tables: Tables): string =>
  `DELETE FROM ${tables.keys} AS k USING ${eachKeyOf(tables, 'old')} WHERE ${IS_THAT_KEY}`

const COUNTS = `
  SELECT (SELECT count(*) FROM gone) AS forgotten, EXISTS (SELECT 1 FROM old WHERE stored_bytes > 0) AS are_counted`

/** Leaves those whose bytes are counted: to take them off, a statement needs more rights. */
const forgetAtomicKeysStatement = defineStatement(
  'forget_atomic_keys',
  (tables) => `${old(tables)}, gone AS (${forget(tables)} AND k.stored_bytes = 0 RETURNING k.id)${COUNTS}`,
)

const forgetCountedKeysStatement = defineStatement(
  'forget_atomic_keys',
  (tables) => `${old(tables)}, gone AS (${forget(tables)}
  RETURNING k.scope, k.pipeline, k.stored_bytes
  ), freed AS (${freeingBytes(tables, 'gone')})${COUNTS}`,
)

/** Deletes keys that nobody came back for, of versions that leave nothing behind; returns how many. */
export async function forgetAtomicKeys(
  store: Store,
  versions: readonly AtomicVersion[],
  limit: number,
): Promise<number> {
  const values = [
    versions.map((version) => version.pipeline),
    versions.map((version) => version.version),
    versions.map((version) => version.definitionHash),
    versions.map((version) => version.forgetAfterMs),
    limit,
    versions.map((version) => version.leaseBoundMs),
  ]
  const [plain] = (await forgetAtomicKeysStatement(store, values)).rows
  const forgotten = Number(plain?.['forgotten'])
  if (plain?.['are_counted'] !== 't') return forgotten
  const [counted] = (await forgetCountedKeysStatement(store, values)).rows
  return forgotten + Number(counted?.['forgotten'])
}
