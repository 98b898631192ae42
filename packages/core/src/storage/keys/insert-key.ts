import type { KeyKind, KeyRow } from './key-row.js'
import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'
import { effectsBefore } from '../effects/find-last-effect.js'
import type { Tables } from '../tables.js'
import { sealJson } from '../sealed-values.js'
import { uuidV7 } from '../../uuid-v7.js'

/** What a fresh key is reserved with. */
export interface NewKey {
  readonly scope: string
  readonly key: string
  readonly pipeline: string
  readonly kind: KeyKind
  readonly version: number
  readonly definitionHash: string
  readonly fingerprint: Buffer
  readonly fingerprintVersion: number
  readonly inputJson: string
  /** The W3C `traceparent` of the request that comes with it; null for none. */
  readonly traceparent: string | null
  /** How many effects of earlier requests under this name were undone. Read over servers only: elsewhere, the statement looks. */
  readonly undoneBefore: number
}

/** Whom it is reserved for. */
export interface FirstGrant {
  readonly holder: string
  /** Null when nobody runs it yet. */
  readonly leaseMs: number | null
  /** Whether the row has to survive a crash of the server before anything else of the request has been committed. */
  readonly durable: boolean
}

const GIVEN = `$1::uuid, $2, $3, $4, $5, $6::integer, $7, $8::bytea, $9::smallint, $10::json, ${NOW}, ${NOW},
         ${NOW} + ${msInterval('$11')}, $12::integer, $13::uuid, $14`

/** Its values: `newKeyValues`. `had`: a row of `effectsBefore`. */
export const newKeyAfter = (had: string): string => `${GIVEN}, ${had}.undone`

/** `more`: further columns. */
export const insertInto = (keys: string, row: string, more = ''): string => `
  INSERT INTO ${keys} AS k
    (id, scope, key, pipeline, kind, version, definition_hash, fingerprint, fingerprint_version, input, created_at,
     updated_at, lease_until, attempts, holder, traceparent, undone_before${more})
  ${row}
  ON CONFLICT (scope, key) DO NOTHING
  RETURNING ${epochMs('k.created_at')} AS now_ms, k.revision, k.undone_before`

/**
 * ON CONFLICT alone would be right, but it waits for whoever has the row locked, such as a holder that froze before its
 * COMMIT, and duplicates would drain the pool. A row that can be seen needs no waiting: it is read, not inserted.
 * And an INSERT that inserts no row takes no transaction id, so that replays use up none.
 *
 * When a row need not be durable, we do not wait until it is written to disk. The request's next COMMIT waits for both: a
 * server that crashes before that loses only a reservation that nothing has followed.
 */
const insertUnless =
  (more: string) =>
  (tables: Tables): string =>
    insertInto(
      tables.keys,
      `SELECT ${newKeyAfter('had')} FROM (${effectsBefore(tables, '$2', '$3')}) AS had
   WHERE NOT EXISTS (SELECT 1 FROM ${tables.keys} AS seen WHERE seen.scope = $2 AND seen.key = $3)${more}`,
    )

/** Citus sends single rows to one server, and executes an INSERT of a SELECT itself. Whoever inserts has looked before. */
const insertAtOnce = ({ keys }: Tables): string => insertInto(keys, `VALUES (${GIVEN}, $15::integer)`)

/** What has had an effect must not run again: the key was deleted, and the provider may have forgotten it too. */
const insertUnspentKey = defineStatement('insert_key', insertUnless(' AND had.standing = 0'), insertAtOnce)

const insertAnyKey = defineStatement('insert_key', insertUnless(''), insertAtOnce)

/**
 * Reserves the key if it is free. Returns null when somebody has it or, unless `runsAgain`, when an effect of it is known.
 * Over servers, the caller has looked for both.
 */
export async function insertKey(
  store: Store,
  key: NewKey,
  grant: FirstGrant,
  runsAgain: boolean,
): Promise<KeyRow | null> {
  const values = newKeyValues(store, key, grant)
  const insert = runsAgain ? insertAnyKey : insertUnspentKey
  const all = store.tables.spread.overServers ? [...values, key.undoneBefore] : values
  const { rows } = await insert(store, all, grant.durable ? 'write' : 'write_soon')
  const row = rows[0]
  return row === undefined ? null : reservedRow(values, key, grant, row)
}

/** The first is the row's id. */
export type NewKeyValues = readonly [id: string, ...others: unknown[]]

export function newKeyValues({ tables }: Store, key: NewKey, grant: FirstGrant): NewKeyValues {
  const id = uuidV7()
  const attempts = grant.leaseMs === null ? 0 : 1
  return [
    id,
    key.scope,
    key.key,
    key.pipeline,
    key.kind,
    key.version,
    key.definitionHash,
    key.fingerprint,
    key.fingerprintVersion,
    sealJson(tables, { id, scope: key.scope, key: key.key }, 'input', key.inputJson),
    grant.leaseMs,
    attempts,
    grant.holder,
    key.traceparent,
  ]
}

/** We know what was inserted, so it need not travel back. */
export function reservedRow(
  [id]: NewKeyValues,
  key: NewKey,
  grant: FirstGrant,
  returned: Readonly<Record<string, string | null>>,
  storedBytes = 0,
): KeyRow {
  const attempts = grant.leaseMs === null ? 0 : 1
  const nowMs = Number(returned['now_ms'])
  return {
    id,
    scope: key.scope,
    key: key.key,
    pipeline: key.pipeline,
    kind: key.kind,
    version: key.version,
    definitionHash: key.definitionHash,
    fingerprint: key.fingerprint.toString('hex'),
    fingerprintVersion: key.fingerprintVersion,
    inputJson: key.inputJson,
    stateJson: '{}',
    recoveryPoint: 'started',
    status: 'running',
    stuckReason: null,
    fence: 1,
    holder: grant.holder,
    leaseUntilMs: grant.leaseMs === null ? null : nowMs + grant.leaseMs,
    attempts,
    retries: 0,
    runAfterMs: null,
    intent: null,
    effectEpoch: 0,
    undoneBefore: Number(returned['undone_before']),
    lastError: null,
    trail: [],
    response: null,
    createdMs: nowMs,
    unstuckMs: null,
    updatedMs: nowMs,
    expiresMs: null,
    nowMs,
    server: null,
    revision: Number(returned['revision']),
    traceparent: key.traceparent,
    storedBytes,
    sealed: null,
  }
}
