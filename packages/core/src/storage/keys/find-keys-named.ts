import { bothUnfinished } from './unfinished.js'
import { defineStatement, epochMs, type Store } from '../statement.js'

/** A key's name in its scope. */
export interface NamedKey {
  readonly scope: string
  readonly key: string
}

/** Keys of one name, and how far back was looked for them. */
export interface KeysNamed {
  readonly keys: readonly NamedKey[]
  /** Not all finished keys that were last written before this were looked at; null where all were. */
  readonly lookedBackToMs: number | null
}

const findKeysIndexedStatement = defineStatement(
  'find_keys_indexed',
  ({ keys }) => `SELECT k.scope, k.key FROM ${keys} AS k WHERE k.key = $1 ORDER BY k.scope LIMIT $2::integer`,
)

const findUnfinishedNamedStatement = defineStatement(
  'find_unfinished_named',
  (tables) => `
  SELECT k.scope, k.key FROM ${bothUnfinished(tables)} WHERE k.key = $1 ORDER BY k.scope LIMIT $2::integer`,
)

/** By the index on when they expire, the latest first: a key alone is in no index, unless somebody makes one. */
const findFinishedNamedStatement = defineStatement(
  'find_finished_named',
  ({ keys }) => `
  WITH looked AS (
    SELECT k.scope, k.key, k.updated_at FROM ${keys} AS k
     WHERE k.status = 'finished' ORDER BY k.expires_at DESC LIMIT $3::integer
  )
  SELECT s.count, s.first_ms, f.scope, f.key
    FROM (SELECT count(*) AS count, ${epochMs('min(l.updated_at)')} AS first_ms FROM looked AS l) AS s
    LEFT JOIN (SELECT l.scope, l.key FROM looked AS l WHERE l.key = $1 ORDER BY l.scope LIMIT $2::integer) AS f ON true`,
)

const readNamed = (row: Readonly<Record<string, string | null>>): NamedKey[] =>
  row['scope'] == null || row['key'] == null ? [] : [{ scope: row['scope'], key: row['key'] }]

/** Keys of that name in any scope, by an index on the name. */
export async function findKeysIndexed(store: Store, key: string, limit: number): Promise<KeysNamed> {
  const { rows } = await findKeysIndexedStatement(store, [key, limit])
  return { keys: rows.flatMap(readNamed), lookedBackToMs: null }
}

/** The same without one: unfinished keys, and as many finished ones as may be looked at. */
export async function findKeysNamed(
  store: Store,
  key: string,
  limit: number,
  mostLookedAt: number,
): Promise<KeysNamed> {
  const unfinished = await findUnfinishedNamedStatement(store, [key, limit])
  const finished = await findFinishedNamedStatement(store, [key, limit, mostLookedAt])
  const [first = {}] = finished.rows
  const areAll = Number(first['count']) < mostLookedAt
  return {
    keys: [...unfinished.rows, ...finished.rows].flatMap(readNamed).slice(0, limit),
    lookedBackToMs: areAll ? null : Number(first['first_ms']),
  }
}
