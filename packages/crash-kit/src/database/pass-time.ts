import { KEY_LOCK_TIMEOUT_MS } from '../limits.js'
import type { KitSchemas } from './kit-schemas.js'
import { type Queryable, textRows } from './text-rows.js'

/** What came of letting time pass for a key. */
export type Passed =
  | 'passed'
  /** There is no such key. */
  | 'no_key'
  /** A stopped actor has written the row in an open transaction, so it cannot be changed. Nothing was changed. */
  | 'locked'

/**
 * Copies of keys that an engine has cached, with the times from before, are of no use from then on: time passes for a cache, too, and a
 * server that takes over is another one.
 */
export const outdateCopies = (pawl: string): string =>
  `UPDATE ${pawl}.cache_epoch SET epoch = gen_random_uuid()`

const LOCK_NOT_AVAILABLE = '55P03'

/** Keeps a statement from waiting for a row that an actor holds until the kit lets that actor go on. */
const BOUNDED = `(SELECT set_config('lock_timeout', '${KEY_LOCK_TIMEOUT_MS}', true)) AS bounded`

/** Only these kinds contain a time. `called` holds a provider's result, which jsonb may refuse. */
const movedIntent = (audit: string, ms: string): string => `
  CASE ${audit}.kind_of(k.intent)
    WHEN 'calling' THEN ${movedMoment('k.intent::jsonb', 'deadlineMs', ms)}::json
    WHEN 'not_made' THEN ${movedMoment('k.intent::jsonb', 'atMs', ms)}::json
    ELSE k.intent END`

/** The same intent, as if declared by another server than the one that reads it. */
const byAnotherServer = (audit: string, moved: string): string => `
  CASE WHEN ${audit}.kind_of(k.intent) = 'calling'
    THEN jsonb_set((${moved})::jsonb, '{server}', '"the server before"')::json ELSE ${moved} END`

const movedMoment = (json: string, field: string, ms: string): string =>
  `jsonb_set(${json}, '{${field}}', to_jsonb((${json} ->> '${field}')::numeric - ${ms}::numeric))`

const movedTrail = (ms: string): string => `
  (SELECT coalesce(jsonb_agg(${movedMoment('e.entry', 't', ms)} ORDER BY e.nth), '[]')::json
     FROM jsonb_array_elements(k.trail::jsonb) WITH ORDINALITY AS e (entry, nth))`

const MOMENTS = ['created_at', 'updated_at', 'lease_until', 'run_after', 'unstuck_at', 'expires_at']

/**
 * Creates a function that returns the kind of an intent. Only an intent with a provider's result can contain what `->>` refuses:
 * NUL, or half of a surrogate pair, anywhere in it.
 */
export const createKindOf = (audit: string): string => `
  CREATE FUNCTION ${audit}.kind_of(intent json) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
  BEGIN
    RETURN intent ->> 'kind';
  EXCEPTION WHEN data_exception OR untranslatable_character OR invalid_text_representation THEN
    RETURN 'called';
  END $$`

/** Moves every time in the row into the past, and fills the buckets of its scope's limits. */
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
 * Lets another server take over, whose clock is ahead by so much. A clock matters only where a stored time is compared with it: to
 * the new server, every time in the row is that much further in the past or, if its clock is behind, in the future.
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
  return updateKey(
    on,
    `WITH outdated AS (${outdateCopies(pawl)}), refilled AS (
       UPDATE ${pawl}.scope_usage AS u SET refilled_at = u.refilled_at - $3::double precision * interval '1 millisecond'
        WHERE u.scope = $1
     )
     UPDATE ${pawl}.idempotency_keys AS k
        SET ${moved.join(', ')}, trail = ${movedTrail('$3')}, intent = ${intent}
       FROM ${BOUNDED}
      WHERE k.scope = $1 AND k.key = $2
     RETURNING k.id`,
    [scope, key, ms],
  )
}

/** Not `least`, which ignores null: a key without a lease would get one. */
const overByNow = (column: string): string =>
  `CASE WHEN ${column} > clock_timestamp() THEN clock_timestamp() ELSE ${column} END`

/** Ends the lease and the back-off. */
export function expireLease(
  on: Queryable,
  { pawl }: KitSchemas,
  scope: string,
  key: string,
): Promise<Passed> {
  return updateKey(
    on,
    `WITH outdated AS (${outdateCopies(pawl)})
     UPDATE ${pawl}.idempotency_keys AS k
        SET lease_until = ${overByNow('k.lease_until')}, run_after = ${overByNow('k.run_after')}
       FROM ${BOUNDED}
      WHERE k.scope = $1 AND k.key = $2
     RETURNING k.id`,
    [scope, key],
  )
}

async function updateKey(on: Queryable, sql: string, values: unknown[]): Promise<Passed> {
  try {
    const rows = await textRows(on, sql, values)
    return rows.length === 0 ? 'no_key' : 'passed'
  } catch (error) {
    if ((error as { code?: unknown }).code === LOCK_NOT_AVAILABLE) return 'locked'
    throw error
  }
}
