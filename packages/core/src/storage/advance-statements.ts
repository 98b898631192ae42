import type { StoredResponse } from '../pipeline/directive.js'
import type { Hold } from './hold-statements.js'
import { boundedBy, defineStatement, epochMs, msInterval, statusIs, type Store } from './statement.js'
import type { Tables } from './tables.js'

/** A foreign effect that a settled phase records. */
export interface Effect {
  readonly phase: string
  readonly effectName: string
  readonly providerKey: string
  readonly reference: string | null
}

/** What an advance gives back; null when it found no row: fenced off. */
export interface Advanced {
  readonly nowMs: number
  readonly expiresMs: number | null
}

// The row has to be as the holder left it: its fence, its holder, its point. `id` goes by the primary key's index.
const AS_LEFT = `k.id = $1::uuid AND k.fence = $2::bigint AND k.holder = $3::uuid
     AND k.recovery_point = $4 AND ${statusIs('running')}`

const trailWith = (
  parameter: string,
  skipped: string,
): string => `k.trail || jsonb_build_array(jsonb_strip_nulls(
           jsonb_build_object('p', ${parameter}::text, 't', ${epochMs('clock_timestamp()')}, 'f', k.fence, 's', ${skipped})))`

const ADVANCED = `${epochMs('clock_timestamp()')} AS now_ms, ${epochMs('k.expires_at')} AS expires_ms`
const EFFECT_COLUMNS = 'k.id, k.scope, k.key, k.pipeline, k.version, k.fence'

const advanceSql = ({ keys }: Tables): string => `
  UPDATE ${keys} AS k
     SET recovery_point = $5, state = $6::json, lease_until = clock_timestamp() + ${msInterval('$7')},
         trail = ${trailWith('$5', 'NULL::boolean')}, attempts = 0, retries = 0, run_after = NULL, intent = NULL,
         effect_epoch = 0, last_error = NULL, updated_at = clock_timestamp()
   WHERE ${AS_LEFT}
  RETURNING ${ADVANCED}`

const finishSql = ({ keys }: Tables): string => `
  UPDATE ${keys} AS k
     SET recovery_point = 'finished', status = 'finished', lease_until = NULL,
         trail = ${trailWith("'finished'", 'NULL::boolean')}, attempts = 0, retries = 0, run_after = NULL, intent = NULL,
         effect_epoch = 0, last_error = NULL, response_status = $5::smallint, response_headers = $6::json,
         response_body = $7::bytea, expires_at = clock_timestamp() + ${msInterval('$8')}, updated_at = clock_timestamp()
   WHERE ${AS_LEFT}
  RETURNING ${ADVANCED}`

/** The same update, which also inserts the effect: one statement, so that neither can be without the other. */
const withEffect =
  (update: (tables: Tables) => string, first: number) =>
  (tables: Tables): string =>
    `
  WITH advanced AS (${update(tables)}, ${EFFECT_COLUMNS}), effect AS (
    INSERT INTO ${tables.effects} (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, reference)
    SELECT id, scope, key, pipeline, version, fence, $${first}, $${first + 1}, $${first + 2}, $${first + 3} FROM advanced
  )
  SELECT now_ms, expires_ms FROM advanced`

const advanceStatement = defineStatement('advance_key', advanceSql)
const advanceWithEffectStatement = defineStatement('advance_key', withEffect(advanceSql, 8))
const finishStatement = defineStatement('finish_key', finishSql)
const finishWithEffectStatement = defineStatement('finish_key', withEffect(finishSql, 9))

const skipStatement = defineStatement(
  'skip_phase',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET recovery_point = $5, lease_until = clock_timestamp() + ${msInterval('$6')}, trail = ${trailWith('$5', 'true')},
         attempts = 0, retries = 0, run_after = NULL, intent = NULL, effect_epoch = 0, last_error = NULL,
         updated_at = clock_timestamp()
    FROM ${boundedBy('$7')}
   WHERE ${AS_LEFT}
  RETURNING ${ADVANCED}`,
)

/** Moves the key to the next recovery point, inside the phase's own transaction and as its last statement. */
export async function advanceKey(
  store: Store,
  hold: Hold,
  from: string,
  to: { readonly point: string; readonly stateJson: string; readonly leaseMs: number },
  effect: Effect | null,
): Promise<Advanced | null> {
  const values = [hold.id, hold.fence, hold.holder, from, to.point, to.stateJson, to.leaseMs]
  const { rows } = await (effect === null
    ? advanceStatement(store, values)
    : advanceWithEffectStatement(store, [...values, ...effectValues(effect)]))
  return readAdvanced(rows)
}

/** Stores the response and finishes the key, inside the phase's own transaction and as its last statement. */
export async function finishKey(
  store: Store,
  hold: Hold,
  from: string,
  response: StoredResponse,
  retentionMs: number,
  effect: Effect | null,
): Promise<Advanced | null> {
  const headers = JSON.stringify(response.headers)
  const values = [
    hold.id,
    hold.fence,
    hold.holder,
    from,
    response.status,
    headers,
    response.body,
    retentionMs,
  ]
  const { rows } = await (effect === null
    ? finishStatement(store, values)
    : finishWithEffectStatement(store, [...values, ...effectValues(effect)]))
  return readAdvanced(rows)
}

/** Passes over a phase whose `when` said no. A single statement, hence no transaction of its own to open. */
export async function skipPhase(
  store: Store,
  hold: Hold,
  from: string,
  to: { readonly point: string; readonly leaseMs: number; readonly lockTimeoutMs: number },
): Promise<Advanced | null> {
  const { rows } = await skipStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    from,
    to.point,
    to.leaseMs,
    String(to.lockTimeoutMs),
  ])
  return readAdvanced(rows)
}

function effectValues(effect: Effect): unknown[] {
  return [effect.phase, effect.effectName, effect.providerKey, effect.reference]
}

function readAdvanced(rows: readonly Readonly<Record<string, string | null>>[]): Advanced | null {
  const row = rows[0]
  if (row === undefined) return null
  return {
    nowMs: Number(row['now_ms']),
    expiresMs: row['expires_ms'] == null ? null : Number(row['expires_ms']),
  }
}
