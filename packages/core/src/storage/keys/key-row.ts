import type { PawlError } from '../../errors.js'
import type { StoredResponse } from '../../pipeline/directive.js'
import type { JsonValue } from '../../pipeline/json-value.js'
import type { StuckReason } from '../../pipeline/outcome.js'
import { epochMs, NOW } from '../statement.js'
import { Opening } from '../sealed-values.js'
import type { Tables } from '../tables.js'
import { readTrail, type TrailEntry } from './trail.js'

/** What was durably recorded about a call before its result was settled. */
export type Intent =
  /** It may have been made; no attempt at it continues past the deadline, by that server's clock. */
  | {
      readonly kind: 'calling'
      readonly phase: string
      readonly deadlineMs: number
      /** The longest it was declared to take. Missing when nobody knows. */
      readonly timeoutMs?: number
      /** As `KeyRow.server`. Missing when nobody knows by whose clock. */
      readonly server?: string
    }
  /** It was made and returned this result, which `settle` could not commit. */
  | {
      readonly kind: 'called'
      readonly phase: string
      readonly result: JsonValue
      /** The result is what a person says the call returned, and may be wrong. */
      readonly said?: true
      /** The result arrived when the key was already a person's, who may continue with it. */
      readonly late?: true
    }
  /** A person said, at this moment, that it had not been made: it may be made again. */
  | { readonly kind: 'not_made'; readonly phase: string; readonly atMs: number }

/**
 * What runs a key: a pipeline that engines register, which a completer may go on with, or an atomic handler, which only a
 * request of its client can run.
 */
export type KeyKind = 'pipeline' | 'atomic'

/** A key's row. Times are milliseconds on the database's clock; `nowMs` is that clock when the row was read. */
export interface KeyRow {
  readonly id: string
  readonly scope: string
  readonly key: string
  readonly pipeline: string
  readonly kind: KeyKind
  readonly version: number
  readonly definitionHash: string
  readonly fingerprint: string
  readonly fingerprintVersion: number
  /** JSON text: every phase gets its own copy, so that only what is stored is carried from one to the next. */
  readonly inputJson: string
  readonly stateJson: string
  readonly recoveryPoint: string
  readonly status: 'running' | 'finished' | 'stuck'
  readonly stuckReason: StuckReason | null
  readonly fence: number
  readonly holder: string
  readonly leaseUntilMs: number | null
  readonly attempts: number
  readonly retries: number
  readonly runAfterMs: number | null
  readonly intent: Intent | null
  readonly effectEpoch: number
  /** How many effects of earlier requests under this name had been undone when the key was reserved. */
  readonly undoneBefore: number
  readonly lastError: string | null
  readonly trail: readonly TrailEntry[]
  readonly response: StoredResponse | null
  readonly createdMs: number
  /** When a person last unstuck it; null if nobody had to. */
  readonly unstuckMs: number | null
  readonly updatedMs: number
  readonly expiresMs: number | null
  readonly nowMs: number
  /**
   * Which server, since which of its starts, has read the row: what another one wrote goes by another clock. Null for a row
   * that was just inserted: nothing in it goes by any clock yet.
   */
  readonly server: string | null
  /** Grows by one at every write: it differs if anything at all has changed since. */
  readonly revision: number
  /** The W3C `traceparent` of the request that reserved it; null for none. */
  readonly traceparent: string | null
  /** What is counted of it as bytes that its scope has stored; 0 where that is not counted. */
  readonly storedBytes: number
  /**
   * Why some of its values could not be opened; null where all could. If there is something, they are empty here, with no response
   * and no last error, and nothing may be done with the row that depends on them.
   */
  readonly sealed: PawlError | null
}

/** The columns that `readKeyRow` reads; `k` is the key's table. The body travels as base64: half of hex's size. */
const keyColumns = (
  { input, state, trail, headers, body }: Record<'input' | 'state' | 'trail' | 'headers' | 'body', string>,
  now: string,
): string => `
  k.id, k.scope, k.key, k.pipeline, k.kind, k.version, k.definition_hash, encode(k.fingerprint, 'hex') AS fingerprint,
  k.fingerprint_version, ${input} AS input, ${state} AS state, k.recovery_point, k.status, k.stuck_reason, k.fence, k.holder,
  ${epochMs('k.lease_until')} AS lease_until_ms, k.attempts, k.retries, ${epochMs('k.run_after')} AS run_after_ms,
  k.intent, k.effect_epoch, k.undone_before, k.last_error, ${trail} AS trail, k.response_status, ${headers} AS response_headers,
  ${body} AS response_body, ${epochMs('k.created_at')} AS created_ms,
  ${epochMs('k.unstuck_at')} AS unstuck_ms,
  ${epochMs('k.updated_at')} AS updated_ms, ${epochMs('k.expires_at')} AS expires_ms,
  ${epochMs(now)} AS now_ms, k.revision, k.traceparent, k.stored_bytes`

const RESPONSE = { headers: 'k.response_headers', body: `encode(k.response_body, 'base64')` }
const ALL = { input: 'k.input', state: 'k.state', trail: 'k.trail', ...RESPONSE }

export const keyColumnsIn = ({ server }: Tables): string => `${keyColumns(ALL, NOW)}, ${server} AS server`

/**
 * The same for a write that has set `updated_at`: what a write returns must not change by itself. The statement adds
 * `server`, from a source of its own.
 */
export const KEY_COLUMNS_WRITTEN = keyColumns(ALL, 'k.updated_at')

/** The same for lists: nothing of what clients sent and got, which may be a thousand times as much as the rest. */
export const keyColumnsToListIn = ({ server }: Tables): string =>
  `${keyColumns(TO_LIST, NOW)}, ${server} AS server`

const TO_LIST = { input: `'null'`, state: `'{}'`, trail: 'k.trail', headers: `'{}'`, body: `''` }

const unlessFinished = (column: string, empty: string): string =>
  `CASE WHEN k.status = 'finished' THEN '${empty}' ELSE ${column}::text END`

/** The same for callers that only want to replay a finished key: how its response came about is then not read. */
export const keyColumnsToReplayIn = ({ server }: Tables): string =>
  `${keyColumns(TO_REPLAY, NOW)}, ${server} AS server`

const TO_REPLAY = {
  input: unlessFinished('k.input', 'null'),
  state: unlessFinished('k.state', '{}'),
  trail: unlessFinished('k.trail', '[]'),
  ...RESPONSE,
}

/**
 * The phase that an intent belongs to. Read from its text: a result that a provider returned may hold what `->>` refuses
 * (NUL, half of a surrogate pair). `phase` comes before it, and no phase's name needs escaping. A generated column would
 * be simpler, but the server compiles its expression at every write of the table.
 */
export const INTENT_PHASE = `substring(k.intent::text, '"phase" *: *"([^"]*)"')`

type TextRow = Readonly<Record<string, string | null>>

export function readKeyRow(row: TextRow, tables: Tables): KeyRow {
  const [id, scope, key] = [text(row, 'id'), text(row, 'scope'), text(row, 'key')]
  const opening = new Opening(tables, { id, scope, key })
  const opened = {
    inputJson: opening.json('input', text(row, 'input'), 'null'),
    stateJson: opening.json('state', text(row, 'state'), '{}'),
    intent: opening.intent(row['intent']),
    lastError: opening.text('last_error', row['last_error'] ?? null),
    response: readResponse(row, opening),
  }
  return {
    ...opened,
    sealed: opening.failed,
    id,
    scope,
    key,
    pipeline: text(row, 'pipeline'),
    kind: text(row, 'kind') as KeyKind,
    version: Number(text(row, 'version')),
    definitionHash: text(row, 'definition_hash'),
    fingerprint: text(row, 'fingerprint'),
    fingerprintVersion: Number(text(row, 'fingerprint_version')),
    recoveryPoint: text(row, 'recovery_point'),
    status: text(row, 'status') as KeyRow['status'],
    stuckReason: row['stuck_reason'] as StuckReason | null,
    fence: Number(text(row, 'fence')),
    holder: text(row, 'holder'),
    leaseUntilMs: numberOrNull(row, 'lease_until_ms'),
    attempts: Number(text(row, 'attempts')),
    retries: Number(text(row, 'retries')),
    runAfterMs: numberOrNull(row, 'run_after_ms'),
    effectEpoch: Number(text(row, 'effect_epoch')),
    undoneBefore: Number(text(row, 'undone_before')),
    trail: readTrail(text(row, 'trail')),
    createdMs: Number(text(row, 'created_ms')),
    unstuckMs: numberOrNull(row, 'unstuck_ms'),
    updatedMs: Number(text(row, 'updated_ms')),
    expiresMs: numberOrNull(row, 'expires_ms'),
    nowMs: Number(text(row, 'now_ms')),
    server: text(row, 'server'),
    revision: Number(text(row, 'revision')),
    traceparent: row['traceparent'] ?? null,
    storedBytes: Number(text(row, 'stored_bytes')),
  }
}

/** When the last recovery point committed: from then on, a call of the next phase may have happened. */
export function previousCommitMs(row: Pick<KeyRow, 'trail' | 'createdMs'>): number {
  return row.trail.at(-1)?.atMs ?? row.createdMs
}

/** How long the key has been tried: when a person unsticks it, its time starts again. */
export function ageMs(row: Pick<KeyRow, 'createdMs' | 'unstuckMs'>, nowMs: number): number {
  return nowMs - (row.unstuckMs ?? row.createdMs)
}

function readResponse(row: TextRow, opening: Opening): StoredResponse | null {
  if (row['response_status'] == null) return null
  const body = Buffer.from(text(row, 'response_body'), 'base64')
  return opening.response(Number(row['response_status']), text(row, 'response_headers'), body)
}

function text(row: TextRow, column: string): string {
  const value = row[column]
  if (value == null) throw new TypeError(`idempotency_keys.${column} is unexpectedly null`)
  return value
}

function numberOrNull(row: TextRow, column: string): number | null {
  return row[column] == null ? null : Number(row[column])
}
