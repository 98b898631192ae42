import { MEDDLE_LOCK_TIMEOUT_MS } from '../limits.js'
import type { KitSchemas } from './kit-schemas.js'
import { type Queryable, textRows } from './text-rows.js'

/** What became of time that was to pass for a key. */
export type Passed =
  | 'passed'
  /** There is no such key. */
  | 'no_key'
  /** Somebody stands still in a transaction that has written the row: it cannot be touched. Nothing was changed. */
  | 'locked'

const LOCK_NOT_AVAILABLE = '55P03'

/** Stops a statement from waiting for a row that an actor holds until the kit lets it go on. */
const BOUNDED = `(SELECT set_config('lock_timeout', '${MEDDLE_LOCK_TIMEOUT_MS}', true)) AS bounded`

/** The kinds that hold a moment; what a provider returned, which may be of no use to jsonb, is in another. */
const movedIntent = (audit: string, ms: string): string => `
  CASE ${audit}.kind_of(k.intent)
    WHEN 'calling' THEN ${movedMoment('k.intent::jsonb', 'deadlineMs', ms)}::json
    WHEN 'not_made' THEN ${movedMoment('k.intent::jsonb', 'atMs', ms)}::json
    ELSE k.intent END`

/** The same intent, declared by another server than the one that reads it. */
const byAnotherServer = (audit: string, moved: string): string => `
  CASE WHEN ${audit}.kind_of(k.intent) = 'calling'
    THEN jsonb_set((${moved})::jsonb, '{server}', '"the server before"')::json ELSE ${moved} END`

const movedMoment = (json: string, field: string, ms: string): string =>
  `jsonb_set(${json}, '{${field}}', to_jsonb((${json} ->> '${field}')::numeric - ${ms}::numeric))`

const movedTrail = (ms: string): string => `
  (SELECT coalesce(jsonb_agg(${movedMoment('e.entry', 't', ms)} ORDER BY e.nth), '[]')
     FROM jsonb_array_elements(k.trail) WITH ORDINALITY AS e (entry, nth))`

const MOMENTS = ['created_at', 'updated_at', 'lease_until', 'run_after', 'unstuck_at', 'expires_at']

/**
 * Says of which kind an intent is. Only one that holds a provider's result can hold what `->>` refuses: NUL, or half of
 * a surrogate pair, anywhere in it.
 */
export const createKindOf = (audit: string): string => `
  CREATE FUNCTION ${audit}.kind_of(intent json) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
  BEGIN
    RETURN intent ->> 'kind';
  EXCEPTION WHEN data_exception OR untranslatable_character OR invalid_text_representation THEN
    RETURN 'called';
  END $$`

/** Moves every moment that the row knows into the past. */
export function passTime(
  on: Queryable,
  { pawl, audit }: KitSchemas,
  scope: string,
  key: string,
  ms: number,
): Promise<Passed> {
  return moveMoments(on, pawl, { scope, key, ms }, movedIntent(audit, '$3'))
}

/**
 * Another server takes over, whose clock is so much ahead. Clocks show only where what is stored is compared with one: to
 * the new server, every moment of the row is as much further in the past, or for one that is behind, in the future.
 */
export function changeServer(
  on: Queryable,
  { pawl, audit }: KitSchemas,
  scope: string,
  key: string,
  aheadMs: number,
): Promise<Passed> {
  const intent = byAnotherServer(audit, movedIntent(audit, '$3'))
  return moveMoments(on, pawl, { scope, key, ms: aheadMs }, intent)
}

function moveMoments(
  on: Queryable,
  pawl: string,
  { scope, key, ms }: { readonly scope: string; readonly key: string; readonly ms: number },
  intent: string,
): Promise<Passed> {
  const moved = MOMENTS.map(
    (column) => `${column} = k.${column} - $3::double precision * interval '1 millisecond'`,
  )
  return meddle(
    on,
    `UPDATE ${pawl}.idempotency_keys AS k
        SET ${moved.join(', ')}, trail = ${movedTrail('$3')}, intent = ${intent}
       FROM ${BOUNDED}
      WHERE k.scope = $1 AND k.key = $2
     RETURNING k.id`,
    [scope, key, ms],
  )
}

/** Not `least`, which takes null for the later one: nobody would have a lease. */
const overByNow = (column: string): string =>
  `CASE WHEN ${column} > clock_timestamp() THEN clock_timestamp() ELSE ${column} END`

/** Ends the lease and the back-off. */
export function expireLease(
  on: Queryable,
  { pawl }: KitSchemas,
  scope: string,
  key: string,
): Promise<Passed> {
  return meddle(
    on,
    `UPDATE ${pawl}.idempotency_keys AS k
        SET lease_until = ${overByNow('k.lease_until')}, run_after = ${overByNow('k.run_after')}
       FROM ${BOUNDED}
      WHERE k.scope = $1 AND k.key = $2
     RETURNING k.id`,
    [scope, key],
  )
}

async function meddle(on: Queryable, sql: string, values: unknown[]): Promise<Passed> {
  try {
    const rows = await textRows(on, sql, values)
    return rows.length === 0 ? 'no_key' : 'passed'
  } catch (error) {
    if ((error as { code?: unknown }).code === LOCK_NOT_AVAILABLE) return 'locked'
    throw error
  }
}
