import { CLOCK_WENT_BACK_MS } from '../limits.js'
import type { StuckReason } from '../pipeline/outcome.js'
import {
  KEY_COLUMNS,
  KEY_COLUMNS_TO_REPLAY,
  type KeyKind,
  type KeyRow,
  readKeyRow,
  SERVER,
} from './key-row.js'
import { boundedBy, defineStatement, epochMs, msInterval, statusIs, type Store } from './statement.js'

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
}

/** Whom it is reserved for. */
export interface FirstGrant {
  readonly holder: string
  /** Null: nobody runs it yet. */
  readonly leaseMs: number | null
  /** Whether the row has to survive a crash of the server before anything else of the request has been committed. */
  readonly durable: boolean
}

/**
 * ON CONFLICT alone would be right, but it waits for whoever has the row locked, such as a holder that froze before its
 * COMMIT, and duplicates would drain the pool. A row that can be seen needs no waiting: it is read, not inserted.
 *
 * A row that need not be durable is not waited for to be written to the disk. The next COMMIT of the request waits for
 * both: a server that crashes before has lost a reservation that nothing has followed.
 */
const insertKeyStatement = defineStatement(
  'insert_key',
  ({ keys }) => `
  INSERT INTO ${keys} AS k
    (scope, key, pipeline, kind, version, definition_hash, fingerprint, fingerprint_version, input, holder, lease_until,
     attempts)
  SELECT $1, $2, $3, $13, $4::integer, $5, $6::bytea, $7::smallint, $8::json, $9::uuid, clock_timestamp() + ${msInterval('$10')},
         CASE WHEN $10::double precision IS NULL THEN 0 ELSE 1 END
    FROM ${boundedBy('$11')}, ${writtenOutIf('$12')}
   WHERE NOT EXISTS (SELECT FROM ${keys} AS seen WHERE seen.scope = $1 AND seen.key = $2)
  ON CONFLICT (scope, key) DO NOTHING
  RETURNING k.id, k.unstuck_at, ${epochMs('k.lease_until')} AS lease_until_ms, ${epochMs('k.created_at')} AS created_ms,
            ${epochMs('clock_timestamp()')} AS now_ms, ${SERVER} AS server, pg_current_xact_id()::xid AS written_by`,
)

/** Sets `synchronous_commit` for the statement it stands in, like `boundedBy`. */
function writtenOutIf(parameter: string): string {
  return `(SELECT set_config('synchronous_commit', CASE WHEN ${parameter}::boolean
                            THEN current_setting('synchronous_commit') ELSE 'off' END, true)) AS written_out`
}

/** Reserves the key if it is free. Null: somebody has it. */
export async function insertKey(
  store: Store,
  key: NewKey,
  grant: FirstGrant,
  lockTimeoutMs: number,
): Promise<KeyRow | null> {
  const { rows } = await insertKeyStatement(store, [
    key.scope,
    key.key,
    key.pipeline,
    key.version,
    key.definitionHash,
    key.fingerprint,
    key.fingerprintVersion,
    key.inputJson,
    grant.holder,
    grant.leaseMs,
    String(lockTimeoutMs),
    grant.durable,
    key.kind,
  ])
  return rows[0] === undefined ? null : newKeyRow(rows[0], key, grant)
}

/**
 * A fresh key's row: what was inserted is known, and need not travel back. A partitioned table cannot tell its xmin. The
 * latest column comes back all the same, so that a schema which lacks it is noticed before anything is run.
 */
function newKeyRow(row: Readonly<Record<string, string | null>>, key: NewKey, grant: FirstGrant): KeyRow {
  const createdMs = Number(row['created_ms'])
  return {
    id: row['id'] ?? '',
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
    leaseUntilMs: row['lease_until_ms'] == null ? null : Number(row['lease_until_ms']),
    attempts: grant.leaseMs === null ? 0 : 1,
    retries: 0,
    runAfterMs: null,
    intent: null,
    effectEpoch: 0,
    lastError: null,
    trail: [],
    response: null,
    createdMs,
    unstuckMs: null,
    updatedMs: createdMs,
    expiresMs: null,
    nowMs: Number(row['now_ms']),
    server: row['server'] ?? '',
    writtenBy: row['written_by'] ?? '',
  }
}

const writeOutStatement = defineStatement(
  'write_out',
  () => `SELECT pg_logical_emit_message(true, 'pawl', '')`,
)

/** Comes back once all that was committed before is on the disk, however it was committed. */
export async function writeOut(store: Store): Promise<void> {
  await writeOutStatement(store, [])
}

type FindKey = (store: Store, scope: string, key: string) => Promise<KeyRow | null>

function findKeyWith(columns: string): FindKey {
  const statement = defineStatement(
    'find_key',
    ({ keys }) => `SELECT ${columns} FROM ${keys} AS k WHERE k.scope = $1 AND k.key = $2`,
  )
  return async (store, scope, key) => {
    const { rows } = await statement(store, [scope, key])
    return rows[0] === undefined ? null : readKeyRow(rows[0])
  }
}

export const findKey = findKeyWith(KEY_COLUMNS)

/** As `findKey`, but of a finished key, it is only told what it was answered. */
export const findKeyToReplay = findKeyWith(KEY_COLUMNS_TO_REPLAY)

const findKeyByIdStatement = defineStatement(
  'find_key_by_id',
  ({ keys }) => `SELECT ${KEY_COLUMNS} FROM ${keys} AS k WHERE k.id = $1::uuid`,
)

export async function findKeyById(store: Store, id: string): Promise<KeyRow | null> {
  const { rows } = await findKeyByIdStatement(store, [id])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}

/** What belongs to somebody else is not found, rather than read and withheld: it costs what an unknown id costs. */
const findOwnKeyStatement = defineStatement(
  'find_own_key',
  ({ keys }) => `SELECT ${KEY_COLUMNS_TO_REPLAY} FROM ${keys} AS k
   WHERE k.id = $1::uuid AND k.scope = $2::text
     AND pg_catalog.substr(k.fingerprint, 1, pg_catalog.octet_length($3::bytea)) = $3::bytea`,
)

/** `fingerprintStart`: what the fingerprints of requests that may be asked about begin with. */
export async function findOwnKey(
  store: Store,
  of: { readonly id: string; readonly scope: string; readonly fingerprintStart: Buffer },
): Promise<KeyRow | null> {
  const { rows } = await findOwnKeyStatement(store, [of.id, of.scope, of.fingerprintStart])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}

/** The row was written by a clock that has gone back since. `of`: the table's alias, and a dot. */
export const writtenAhead = (of: string): string =>
  `${of}updated_at > (clock_timestamp() + ${msInterval(String(CLOCK_WENT_BACK_MS))})`

/**
 * Nobody holds the key: it was given back, its lease has run out, or it is longer than any that is granted here and its row
 * was written in the future. Then the clock it was granted by was ahead of this one, and who was granted it has had its
 * time, or renews it soon. Longer alone proves nothing: another deployment may grant longer leases.
 */
export const leaseIsOver = (of: string, boundMs: string, rest = ''): string =>
  `(${of}lease_until IS NULL OR ${of}lease_until${rest} <= clock_timestamp()
          OR (${of}lease_until > (clock_timestamp() + ${msInterval(boundMs)}) AND ${writtenAhead(of)}))`

/**
 * The row that was read, if nothing of it has changed since and nobody holds it. The fence alone does not tell: a
 * holder whose lease ran out may have advanced, declared a call and given the key back under the fence that was read.
 * A locked row belongs to a holder that is about to commit, or froze while doing so: skipped, so that duplicates
 * neither wait nor drain the pool.
 */
const unheld = (keys: string, writtenBy: string, leaseBoundMs: string): string => `
  SELECT id FROM ${keys}
   WHERE id = $1::uuid AND fence = $2::bigint AND xmin = ${writtenBy}::xid AND ${statusIs('running', '')}
     AND ${leaseIsOver('', leaseBoundMs)}
     FOR NO KEY UPDATE SKIP LOCKED`

/** Who takes a key over, and under which definition it goes on (its own, or one it is upgraded to). */
export interface TakeOver {
  readonly holder: string
  readonly leaseMs: number
  /** A lease that ends later than this from now counts as over. */
  readonly leaseBoundMs: number
  readonly version: number
  readonly definitionHash: string
  readonly recoveryPoint: string
  /** Null: unchanged. */
  readonly stateJson: string | null
  readonly intent: KeyRow['intent']
  readonly effectEpoch: number
}

const takeOverKeyStatement = defineStatement(
  'take_over_key',
  ({ keys }) => `
  WITH target AS (${unheld(keys, '$10', '$11')})
  UPDATE ${keys} AS k
     SET fence = k.fence + 1, holder = $3::uuid, lease_until = clock_timestamp() + ${msInterval('$4')},
         attempts = k.attempts + 1, version = $5::integer, definition_hash = $6, recovery_point = $7,
         state = coalesce($8::json, k.state), intent = $9::json, effect_epoch = $12::integer,
         updated_at = clock_timestamp()
    FROM target WHERE k.id = target.id
  RETURNING ${KEY_COLUMNS}`,
)

/** Grants the key anew, conditional on all that was read of it. Null: it moved, is held, or is locked. */
export async function takeOverKey(store: Store, read: KeyRow, by: TakeOver): Promise<KeyRow | null> {
  const { rows } = await takeOverKeyStatement(store, [
    read.id,
    read.fence,
    by.holder,
    by.leaseMs,
    by.version,
    by.definitionHash,
    by.recoveryPoint,
    by.stateJson,
    by.intent === null ? null : JSON.stringify(by.intent),
    read.writtenBy,
    by.leaseBoundMs,
    by.effectEpoch,
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}

const markUnheldKeyStuckStatement = defineStatement(
  'mark_unheld_stuck',
  ({ keys }) => `
  WITH target AS (${unheld(keys, '$5', '$7')})
  UPDATE ${keys} AS k
     SET fence = k.fence + 1, holder = $3::uuid, status = 'stuck', stuck_reason = $4, lease_until = NULL,
         last_error = coalesce(k.last_error, $6), updated_at = clock_timestamp()
    FROM target WHERE k.id = target.id
  RETURNING k.last_error`,
)

/**
 * Instead of a take-over: nobody may run the key any more. Gives the row as it is now; null: it moved, is held, or is
 * locked. `lastError` is for a key whose holders died without a word.
 */
export async function markUnheldKeyStuck(
  store: Store,
  read: KeyRow,
  by: {
    readonly holder: string
    readonly reason: StuckReason
    readonly leaseBoundMs: number
    readonly lastError: string
  },
): Promise<KeyRow | null> {
  const { holder, reason, lastError, leaseBoundMs } = by
  const values = [read.id, read.fence, holder, reason, read.writtenBy, lastError, leaseBoundMs]
  const { rows } = await markUnheldKeyStuckStatement(store, values)
  return rows[0] === undefined ? null : { ...read, lastError: rows[0]['last_error'] ?? null }
}
