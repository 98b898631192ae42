import type { StoredResponse } from '../pipeline/directive.js'
import { KEY_COLUMNS, type KeyRow, readKeyRow } from './key-row.js'
import { boundedBy, defineStatement, epochMs, msInterval, statusIs, type Store } from './statement.js'
import type { Tables } from './tables.js'

/** What is written down of an intervention. */
export interface Note {
  readonly actor: string
  readonly reason: string
  /** JSON text: what it was before, and what was given. */
  readonly detailJson: string
}

/** Who changes a row: as it was read, and the new identity that fences its holder off. */
export interface Steering {
  readonly read: KeyRow
  readonly holder: string
  readonly note: Note
  readonly lockTimeoutMs: number
}

/**
 * Changes the row that was read, if nothing of it has changed since, and writes the intervention down: one statement, so
 * that neither can be without the other. The note has the new holder's name, so that it is made once. It waits for whoever is about to commit, but not for long. Parameters from $9
 * on are the change's own.
 */
const steered =
  (action: string, condition: string, change: string) =>
  ({ keys, interventions }: Tables): string =>
    `
  WITH target AS (
    SELECT k.id FROM ${boundedBy('$8')}, ${keys} AS k
     WHERE k.id = $1::uuid AND k.fence = $2::bigint AND k.xmin = $3::xid AND ${condition}
       FOR NO KEY UPDATE OF k
  ), steered AS (
    UPDATE ${keys} AS k
       SET fence = k.fence + 1, holder = $4::uuid, lease_until = NULL, updated_at = clock_timestamp()${change}
      FROM target WHERE k.id = target.id
    RETURNING ${KEY_COLUMNS}
  ), noted AS (
    INSERT INTO ${interventions} (id, key_id, scope, key, action, actor, reason, detail)
    SELECT $4::uuid, id, scope, key, '${action}', $5, $6, $7::json FROM steered
  )
  SELECT * FROM steered`

const unstickKeyStatement = defineStatement(
  'unstick_key',
  steered(
    'unstick',
    statusIs('stuck'),
    `, status = 'running', stuck_reason = NULL, attempts = 0, retries = 0, run_after = NULL,
           unstuck_at = clock_timestamp(), effect_epoch = k.effect_epoch + CASE WHEN $9 = 'not_made' THEN 1 ELSE 0 END,
           intent = CASE WHEN $9 = 'called' THEN $11::json
                            WHEN $9 = 'not_made' THEN json_build_object('kind', 'not_made', 'phase', $10::text,
                                                                   'atMs', ${epochMs('clock_timestamp()')})
                            ELSE k.intent END`,
  ),
)

/** What a person said of a call. */
export type SaidOfCall =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'not_made'; readonly phase: string }
  | { readonly kind: 'called'; readonly phase: string; readonly intentJson: string }

/** Lets a stuck key run again, its attempts and its age anew. Null: it moved. */
export async function unstickKey(store: Store, steering: Steering, said: SaidOfCall): Promise<KeyRow | null> {
  const { rows } = await unstickKeyStatement(store, [
    ...steeringValues(steering),
    said.kind,
    said.kind === 'nothing' ? null : said.phase,
    said.kind === 'called' ? said.intentJson : null,
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}

const revokeLeaseStatement = defineStatement(
  'revoke_lease',
  steered('revoke', `${statusIs('running')} AND k.lease_until > clock_timestamp()`, ''),
)

/** Ends the lease of whoever holds the key. Null: it moved, or nobody holds it any more. */
export async function revokeLease(store: Store, steering: Steering): Promise<KeyRow | null> {
  const { rows } = await revokeLeaseStatement(store, steeringValues(steering))
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}

const answerKeyStatement = defineStatement(
  'answer_key',
  steered(
    'answer',
    statusIs('stuck'),
    `, status = 'finished', recovery_point = 'finished', stuck_reason = NULL, attempts = 0, retries = 0,
           run_after = NULL, intent = NULL, effect_epoch = 0,
           trail = k.trail || jsonb_build_array(jsonb_build_object('p', 'finished', 't', ${epochMs('clock_timestamp()')},
                                                                   'f', k.fence + 1)),
           response_status = $9::smallint, response_headers = $10::json, response_body = $11::bytea,
           expires_at = clock_timestamp() + ${msInterval('$12')}`,
  ),
)

/** Finishes a stuck key with a response that no phase gave. Null: it moved. */
export async function answerKey(
  store: Store,
  steering: Steering,
  response: StoredResponse,
  retentionMs: number,
): Promise<KeyRow | null> {
  const { rows } = await answerKeyStatement(store, [
    ...steeringValues(steering),
    response.status,
    JSON.stringify(response.headers),
    response.body,
    retentionMs,
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}

function steeringValues({ read, holder, note, lockTimeoutMs }: Steering): unknown[] {
  return [
    read.id,
    read.fence,
    read.writtenBy,
    holder,
    note.actor,
    note.reason,
    note.detailJson,
    String(lockTimeoutMs),
  ]
}

const isNotedStatement = defineStatement(
  'is_noted',
  ({ interventions }) => `SELECT i.id FROM ${interventions} AS i WHERE i.id = $1::uuid`,
)

/** Whether a change went through, whatever has become of its row since. */
export async function isNoted(store: Store, holder: string): Promise<boolean> {
  const { rows } = await isNotedStatement(store, [holder])
  return rows.length === 1
}

const noteReapStatement = defineStatement(
  'note_reap',
  ({ interventions }) => `
  INSERT INTO ${interventions} (action, actor, reason, detail) VALUES ('reap', $1, $2, $3::json)`,
)

/**
 * Writes down that somebody has expired rows deleted, which is many statements and about no single key: before the first
 * of them, and once more with what came of it. Notes are added, never changed.
 */
export async function noteReap(store: Store, note: Note): Promise<void> {
  await noteReapStatement(store, [note.actor, note.reason, note.detailJson])
}

/** An intervention's row. */
export interface InterventionRow {
  readonly action: string
  readonly actor: string
  readonly reason: string | null
  readonly detailJson: string
  readonly createdMs: number
}

const findInterventionsStatement = defineStatement(
  'find_interventions',
  ({ interventions }) => `
  SELECT i.action, i.actor, i.reason, i.detail, ${epochMs('i.created_at')} AS created_ms
    FROM ${interventions} AS i WHERE i.key_id = $1::uuid ORDER BY i.created_at LIMIT $2::integer`,
)

/** What people did to a key, oldest first. */
export async function findInterventions(
  store: Store,
  keyId: string,
  limit: number,
): Promise<InterventionRow[]> {
  const { rows } = await findInterventionsStatement(store, [keyId, limit])
  return rows.map((row) => ({
    action: row['action'] ?? '',
    actor: row['actor'] ?? '',
    reason: row['reason'] ?? null,
    detailJson: row['detail'] ?? 'null',
    createdMs: Number(row['created_ms']),
  }))
}
