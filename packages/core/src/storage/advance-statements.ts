import { sqlStateOf } from '../driver/postgres-error.js'
import type { Bound } from '../driver/outgoing.js'
import type { StoredResponse } from '../pipeline/directive.js'
import type { Hold } from './hold-statements.js'
import { INTENT_PHASE } from './key-row.js'
import { boundedBy, defineStatement, epochMs, msInterval, statusIs, type Store } from './statement.js'
import type { Tables } from './tables.js'

/** A foreign effect that a settled phase records. */
export interface Effect {
  readonly phase: string
  readonly effectName: string
  readonly providerKey: string
  readonly reference: string | null
}

/** What an advance gives back. */
export interface Advanced {
  readonly nowMs: number
  readonly expiresMs: number | null
}

// The row has to be as the holder left it: its fence, its holder, its point. `id` goes by the primary key's index.
const AS_LEFT = `k.id = $1::uuid AND k.fence = $2::bigint AND k.holder = $3::uuid
     AND k.recovery_point = $4 AND ${statusIs('running')}`

/**
 * What is known of a call is never cleared by another phase: it belongs to this one, or is carried on to a later one
 * because the holder knows of it. Anything else means that the row is not as the holder believes.
 */
const intentIs = (own: string, carried: string): string =>
  `(k.intent IS NULL OR ${INTENT_PHASE} = ${own}::text OR ${INTENT_PHASE} = ${carried}::text)`

/** A carried intent stays, and the epoch of its provider key with it. */
const intentAfter = (carried: string): string => `
         intent = CASE WHEN ${INTENT_PHASE} = ${carried}::text THEN k.intent END,
         effect_epoch = CASE WHEN ${INTENT_PHASE} = ${carried}::text THEN k.effect_epoch ELSE 0 END`

const trailWith = (
  parameter: string,
  skipped: string,
  outcome: Outcome = 'known',
): string => `k.trail || jsonb_build_array(jsonb_strip_nulls(
           jsonb_build_object('p', ${parameter}::text, 't', ${epochMs('clock_timestamp()')}, 'f', k.fence, 's', ${skipped}${outcome === 'unknown' ? `, 'u', true` : ''})))`

/** Whether it is known what became of the phase's call. */
type Outcome = 'known' | 'unknown'

const ADVANCED = `${epochMs('clock_timestamp()')} AS now_ms, ${epochMs('k.expires_at')} AS expires_ms`
const EFFECT_COLUMNS = 'k.id, k.scope, k.key, k.pipeline, k.version, k.fence'

const advanceSql = ({ keys }: Tables, outcome?: Outcome): string => `
  UPDATE ${keys} AS k
     SET recovery_point = $5, state = $6::json, lease_until = clock_timestamp() + ${msInterval('$7')},
         trail = ${trailWith('$5', 'NULL::boolean', outcome)}, attempts = 0, retries = 0, run_after = NULL,${intentAfter('$8')},
         last_error = NULL, updated_at = clock_timestamp()
   WHERE ${AS_LEFT} AND ${intentIs('$5', '$8')}
  RETURNING ${ADVANCED}`

const finishSql = ({ keys }: Tables, outcome?: Outcome): string => `
  UPDATE ${keys} AS k
     SET recovery_point = 'finished', status = 'finished', lease_until = NULL,
         trail = ${trailWith("'finished'", 'NULL::boolean', outcome)}, attempts = 0, retries = 0, run_after = NULL,${intentAfter('$10')},
         last_error = NULL, response_status = $5::smallint, response_headers = $6::json,
         response_body = $7::bytea, expires_at = clock_timestamp() + ${msInterval('$8')}, updated_at = clock_timestamp()
   WHERE ${AS_LEFT} AND ${intentIs('$9', '$10')}
  RETURNING ${ADVANCED}`

const FENCED_OFF = 'pawl: fenced off'
const INVALID_TEXT_REPRESENTATION = '22P02'

/**
 * Fails where the update found no row, so that a COMMIT that was sent along with it commits nothing. There is no RAISE
 * in plain SQL: a text that is no number says it. It is made from the count, or the planner would try it beforehand.
 */
const ONE_ROW_OR_FAIL = `CASE WHEN count(*) = 1 THEN 1 ELSE ('${FENCED_OFF}, rows: ' || count(*))::integer END AS rows`

/** A setting of a phase's transaction, made when it begins: another transaction does not have it. */
export const IN_PHASE = 'pawl.in_phase'
const IN_ANOTHER = 'pawl: in another transaction'

/** Fails likewise where the transaction is not the one that was begun for the phase: somebody has ended that one. */
const IN_PHASE_OR_FAIL = `CASE WHEN current_setting('${IN_PHASE}', true) = 'yes' THEN 1
              ELSE ('${IN_ANOTHER}, rows: ' || count(*))::integer END AS in_phase`

const heldOrFail = (advance: string): string => `${advance}
  SELECT max(now_ms) AS now_ms, max(expires_ms) AS expires_ms, ${ONE_ROW_OR_FAIL}, ${IN_PHASE_OR_FAIL} FROM advanced`

const alone =
  (update: (tables: Tables, outcome?: Outcome) => string, outcome?: Outcome) =>
  (tables: Tables): string =>
    heldOrFail(`
  WITH advanced AS (${update(tables, outcome)})`)

/** The same update, which also inserts the effect: one statement, so that neither can be without the other. */
const withEffect =
  (update: (tables: Tables) => string, first: number) =>
  (tables: Tables): string =>
    heldOrFail(`
  WITH advanced AS (${update(tables)}, ${EFFECT_COLUMNS}), effect AS (
    INSERT INTO ${tables.effects} (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, reference)
    SELECT id, scope, key, pipeline, version, fence, $${first}, $${first + 1}, $${first + 2}, $${first + 3} FROM advanced
  )`)

const advanceStatement = defineStatement('advance_key', alone(advanceSql))
const advanceUnknownStatement = defineStatement('advance_key', alone(advanceSql, 'unknown'))
const advanceWithEffectStatement = defineStatement('advance_key', withEffect(advanceSql, 9))
const finishStatement = defineStatement('finish_key', alone(finishSql))
const finishUnknownStatement = defineStatement('finish_key', alone(finishSql, 'unknown'))
const finishWithEffectStatement = defineStatement('finish_key', withEffect(finishSql, 11))

/** Whether an advance found that the key is another's by now. */
export function isFencedOff(error: unknown): boolean {
  return saysThat(FENCED_OFF, error)
}

/** Whether an advance found itself in another transaction than its phase's. */
export function isInAnotherTransaction(error: unknown): boolean {
  return saysThat(IN_ANOTHER, error)
}

function saysThat(what: string, error: unknown): boolean {
  const { message, where } = error as { readonly message: string; readonly where?: string }
  // What a trigger or a function says has a place; this statement's own cast has none.
  return (
    sqlStateOf(error) === INVALID_TEXT_REPRESENTATION &&
    // Without the quotation mark before it: servers translate those.
    message.includes(`${what}, rows: `) &&
    where === undefined
  )
}

const skipStatement = defineStatement(
  'skip_phase',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET recovery_point = $5, lease_until = clock_timestamp() + ${msInterval('$6')}, trail = ${trailWith('$5', 'true')},
         attempts = 0, retries = 0, run_after = NULL,${intentAfter('$8')}, last_error = NULL,
         updated_at = clock_timestamp()
    FROM ${boundedBy('$7')}
   WHERE ${AS_LEFT} AND ${intentIs('$5', '$8')}
  RETURNING ${ADVANCED}`,
)

/** What becomes of a call that is known of. */
interface Carrying {
  /** The later phase that it belongs to; null: no call is known of, or only this phase's own. */
  readonly carriedCallOf: string | null
}

/** Moves the key to the next recovery point, inside the phase's own transaction and as its last statement. */
export function advanceKey(
  tables: Tables,
  hold: Hold,
  to: Carrying & { readonly point: string; readonly stateJson: string; readonly leaseMs: number },
  effect: Effect | 'outcome_unknown' | null,
): Bound {
  const values = [
    hold.id,
    hold.fence,
    hold.holder,
    hold.recoveryPoint,
    to.point,
    to.stateJson,
    to.leaseMs,
    to.carriedCallOf,
  ]
  if (effect === 'outcome_unknown') return advanceUnknownStatement.bind(tables, values)
  return effect === null
    ? advanceStatement.bind(tables, values)
    : advanceWithEffectStatement.bind(tables, [...values, ...effectValues(effect)])
}

/** Stores the response and finishes the key, inside the transaction of `phase` and as its last statement. */
export function finishKey(
  tables: Tables,
  hold: Hold,
  to: Carrying & {
    readonly phase: string
    readonly response: StoredResponse
    readonly retentionMs: number
  },
  effect: Effect | 'outcome_unknown' | null,
): Bound {
  const { status, headers, body } = to.response
  const values = [
    hold.id,
    hold.fence,
    hold.holder,
    hold.recoveryPoint,
    status,
    JSON.stringify(headers),
    body,
    to.retentionMs,
    to.phase,
    to.carriedCallOf,
  ]
  if (effect === 'outcome_unknown') return finishUnknownStatement.bind(tables, values)
  return effect === null
    ? finishStatement.bind(tables, values)
    : finishWithEffectStatement.bind(tables, [...values, ...effectValues(effect)])
}

/** Passes over a phase whose `when` said no; null: fenced off. A single statement, hence no transaction of its own to open. */
export async function skipPhase(
  store: Store,
  hold: Hold,
  to: Carrying & { readonly point: string; readonly leaseMs: number; readonly lockTimeoutMs: number },
): Promise<Advanced | null> {
  const { rows } = await skipStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    hold.recoveryPoint,
    to.point,
    to.leaseMs,
    String(to.lockTimeoutMs),
    to.carriedCallOf,
  ])
  return rows[0] === undefined ? null : readAdvanced(rows[0])
}

function effectValues(effect: Effect): unknown[] {
  return [effect.phase, effect.effectName, effect.providerKey, effect.reference]
}

export function readAdvanced(row: Readonly<Record<string, string | null>>): Advanced {
  return {
    nowMs: Number(row['now_ms']),
    expiresMs: row['expires_ms'] == null ? null : Number(row['expires_ms']),
  }
}
