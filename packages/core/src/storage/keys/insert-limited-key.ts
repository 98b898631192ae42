import { standingEffects } from '../effects/find-last-effect.js'
import { defineStatement, NOW, type Store } from '../statement.js'
import type { Tables } from '../tables.js'
import { type Rate, takingToken, tokensNow, waitForToken } from '../usage/bucket.js'
import { countUnfinishedOfScope, unfinishedOf } from '../usage/count-unfinished-of-scope.js'
import { returnToken } from '../usage/return-token.js'
import { takeToken } from '../usage/take-token.js'
import {
  type FirstGrant,
  insertInto,
  insertKey,
  type NewKey,
  newKeyIn,
  newKeyValues,
  reservedRow,
} from './insert-key.js'
import type { KeyRow } from './key-row.js'
import { writeOut } from './write-out.js'

/** How much one scope may have. */
export interface ScopeLimit {
  readonly newKeys: Rate | null
  /** Running and stuck keys at once. */
  readonly unfinished: number | null
}

/** What came of reserving a key under limits. */
export type LimitedInsert =
  | { readonly type: 'inserted'; readonly row: KeyRow }
  /** Somebody has the key, or an effect of it is known. */
  | { readonly type: 'not_inserted' }
  /** `waitMs`: null when nobody knows how long. */
  | { readonly type: 'limited'; readonly limit: 'new_keys' | 'unfinished'; readonly waitMs: number | null }

/** $14: whether the key may run again. $15: the most unfinished keys. $16, $17: the rate. */
const looks = (tables: Tables): string => `
  WITH known AS (
    SELECT 1 FROM ${tables.keys} AS seen WHERE seen.scope = $2 AND seen.key = $3
  ), spent AS (
    SELECT 1 FROM ${standingEffects(tables, '$2', '$3')} AND NOT $14::boolean
  ), unfinished AS (${unfinishedOf(tables, '$2', 'coalesce($15::integer, 0)')}),
  new AS (
    SELECT ($15::integer IS NULL OR unfinished.n < $15::integer) AS fits FROM unfinished
     WHERE NOT EXISTS (SELECT 1 FROM known) AND NOT EXISTS (SELECT 1 FROM spent)
  )`

/** The INSERT does not see the row that it has inserted, and neither does anything else of the statement. */
const tells = (tables: Tables, gate: string, tokens: string): string => `
  , fresh AS (${insertInto(tables.keys, `SELECT ${newKeyIn(tables)} FROM ${gate}`)})
  SELECT (SELECT now_ms FROM fresh) AS now_ms, (SELECT revision FROM fresh) AS revision,
         (SELECT undone_before FROM fresh) AS undone_before,
         EXISTS (SELECT 1 FROM ${gate}) AS passed, (SELECT fits FROM new) AS fits, ${tokens} AS tokens`

/**
 * The token is taken only for a key that nobody has, and the key is inserted only for a token. Whoever meets a known key
 * locks nothing and takes no transaction id.
 */
const insertRatedKey = defineStatement(
  'insert_key',
  (tables) => `${looks(tables)}, token AS (
    INSERT INTO ${tables.scopeUsage} AS u (scope, pipeline, tokens, refilled_at)
    SELECT $2, '', $16::double precision - 1::double precision, ${NOW} FROM new WHERE fits${takingToken('$16', '$17')}
    RETURNING u.scope
  )${tells(
    tables,
    'token',
    `(SELECT ${tokensNow('$16', '$17')} FROM ${tables.scopeUsage} AS u WHERE u.scope = $2 AND u.pipeline = '')`,
  )}`,
)

const insertCountedKey = defineStatement(
  'insert_key',
  (tables) => `${looks(tables)}, room AS (SELECT 1 FROM new WHERE fits)${tells(tables, 'room', 'NULL')}`,
)

/** Reserves the key if it is free, and if the scope's limits leave room for it. */
export async function insertLimitedKey(
  store: Store,
  key: NewKey,
  grant: FirstGrant,
  runsAgain: boolean,
  limit: ScopeLimit,
): Promise<LimitedInsert> {
  if (store.tables.spread.overServers) return insertOverServers(store, key, grant, runsAgain, limit)
  const { newKeys } = limit
  const values = newKeyValues(store, key, grant)
  const more = [runsAgain, limit.unfinished, ...(newKeys === null ? [] : [newKeys.max, newKeys.perMs])]
  const insert = newKeys === null ? insertCountedKey : insertRatedKey
  // A holder waits for the disk afterwards: the scope's row would be locked meanwhile, and its requests would queue for it.
  // What is enqueued is found by others, who promise that it will run.
  const isEnqueued = grant.leaseMs === null
  const { rows } = await insert(store, [...values, ...more], isEnqueued ? 'write' : 'write_soon')
  const row = rows[0] ?? {}
  if (row['now_ms'] != null) {
    if (grant.durable && !isEnqueued) await writeOut(store)
    return { type: 'inserted', row: reservedRow(values, key, grant, row) }
  }
  if (row['passed'] === 't') {
    if (newKeys !== null) await returnToken(store, key.scope, newKeys)
    return { type: 'not_inserted' }
  }
  if (row['fits'] == null) return { type: 'not_inserted' }
  if (row['fits'] === 'f') return { type: 'limited', limit: 'unfinished', waitMs: null }
  if (newKeys === null) return { type: 'not_inserted' }
  return { type: 'limited', limit: 'new_keys', waitMs: waitForToken(newKeys, Number(row['tokens'] ?? 0)) }
}

/** The caller has looked for the key and its effects. */
async function insertOverServers(
  store: Store,
  key: NewKey,
  grant: FirstGrant,
  runsAgain: boolean,
  { newKeys, unfinished }: ScopeLimit,
): Promise<LimitedInsert> {
  if (unfinished !== null && (await countUnfinishedOfScope(store, key.scope, unfinished)) >= unfinished)
    return { type: 'limited', limit: 'unfinished', waitMs: null }
  const waitMs = newKeys === null ? null : await takeToken(store, key.scope, newKeys)
  if (waitMs !== null) return { type: 'limited', limit: 'new_keys', waitMs }
  const row = await insertKey(store, key, grant, runsAgain)
  if (row !== null) return { type: 'inserted', row }
  if (newKeys !== null) await returnToken(store, key.scope, newKeys)
  return { type: 'not_inserted' }
}
