import { isCached, raiseCacheEpoch } from '../cache/raise-cache-epoch.js'
import { asRead } from './as-read.js'
import { KEY_COLUMNS_WRITTEN, type KeyRow, readKeyRow } from './key-row.js'
import { type Steering, steeringValues } from './steered.js'
import { defineStatement, NOW, statusIs, type Store } from '../statement.js'
import type { Tables } from '../tables.js'
import { freeingBytes } from '../usage/stored-bytes.js'

/**
 * An effect that became known since the operator looked is in nobody's word: with it, nothing is deleted, and if it comes only while this
 * waits for the row, it stands. The rows of the others stay, for reconciliation.
 */
const forget =
  (also: (tables: Tables) => string) =>
  (tables: Tables): string => {
    const { keys, effects, interventions, server } = tables
    return `
  WITH target AS (
    SELECT k.scope, k.key, ${server} AS server FROM ${keys} AS k
     WHERE k.scope = $1 AND k.key = $2 AND ${asRead('k.', 3)} AND ${statusIs('finished')}
       AND NOT EXISTS (
         SELECT 1 FROM ${effects} AS e
          WHERE e.scope = $1 AND e.key = $2 AND e.undone_at IS NULL AND NOT (e.id = ANY ($11::uuid[])))
       FOR UPDATE OF k
  ), gone AS (
    DELETE FROM ${keys} AS k USING target WHERE k.scope = $1 AND k.key = $2 AND k.key = target.key
    RETURNING ${KEY_COLUMNS_WRITTEN}, target.server
  ), undone AS (
    UPDATE ${effects} AS e SET undone_at = ${NOW} FROM gone
     WHERE e.scope = $1 AND e.key = $2 AND e.key = gone.key AND e.undone_at IS NULL AND e.id = ANY ($11::uuid[])
  ), noted AS (
    INSERT INTO ${interventions} (id, key_id, scope, key, action, actor, reason, detail, created_at)
    SELECT $7::uuid, id, $1, key, 'forget', $8, $9, $10::json, ${NOW} FROM gone
  )${also(tables)}
  SELECT * FROM gone`
  }

const forgetFinishedKeyStatement = defineStatement(
  'forget_finished_key',
  forget(() => ''),
)

/** The same for a key whose bytes are counted. */
const forgetCountedKeyStatement = defineStatement(
  'forget_finished_key',
  forget((tables) => `, freed AS (${freeingBytes(tables, 'gone')})`),
)

/** A key that was deleted. */
interface ForgottenKey {
  readonly row: KeyRow
  /** Whether engines may replay it from a cache for a moment longer. */
  readonly mayBeCached: boolean
}

/**
 * Deletes a finished key together with what caches know of it, and notes which of its effects were undone. Returns the row as it
 * was, or null when the key has moved on.
 */
export async function forgetFinishedKey(
  { session, tables }: Store,
  steering: Steering,
  undoneEffectIds: readonly string[],
): Promise<ForgottenKey | null> {
  const statement = steering.read.storedBytes > 0 ? forgetCountedKeyStatement : forgetFinishedKeyStatement
  const bound = statement.bind(tables, [...steeringValues(steering), undoneEffectIds])
  const [forgotten, raised] = await session.runEach([bound, ...raiseCacheEpoch(tables)])
  const row = forgotten?.rows[0]
  return row === undefined ? null : { row: readKeyRow(row, tables), mayBeCached: isCached(raised?.rows[0]) }
}
