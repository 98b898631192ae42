import { type KeyKind, type KeyRow, SERVER } from './key-row.js'
import { boundedBy, defineStatement, epochMs, msInterval, type Store } from '../statement.js'

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
  /** Null when nobody runs it yet. */
  readonly leaseMs: number | null
  /** Whether the row has to survive a crash of the server before anything else of the request has been committed. */
  readonly durable: boolean
}

/**
 * ON CONFLICT alone would be right, but it waits for whoever has the row locked, such as a holder that froze before its
 * COMMIT, and duplicates would drain the pool. A row that can be seen needs no waiting: it is read, not inserted.
 *
 * When a row need not be durable, we do not wait until it is written to disk. The request's next COMMIT waits for both: a
 * server that crashes before that loses only a reservation that nothing has followed.
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

/** Reserves the key if it is free. Returns null when somebody has it. */
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
 * A fresh key's row: we know what was inserted, so it need not travel back. A partitioned table cannot return its xmin.
 * The newest column is returned anyway, so that a schema that lacks it is noticed before anything is run.
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
