import { KitError } from '../kit-error.js'
import { BACKEND_POLL_MS, MAX_APPLICATION_NAME_BYTES, SIGNAL_TIMEOUT_MS } from '../limits.js'
import { KIT } from '../history.js'
import { type Queryable, textRows } from './text-rows.js'

/** A connection, as the server sees it. */
export interface Backend {
  readonly pid: number
  readonly actor: string
  /** Such as `active`, `idle` or `idle in transaction`. */
  readonly state: string
  /** The query that it runs, or ran last. */
  readonly query: string
  /** `Lock` while it waits for one. */
  readonly waitEventType: string | null
  /** The processes that hold the lock it waits for; empty when it waits for none. */
  readonly blockedBy: readonly number[]
}

/** Returns the name by which connections are told apart. The server would cut off a longer one, and replace what is not ASCII. */
export function applicationName(id: string, actor: string): string {
  const longest = MAX_APPLICATION_NAME_BYTES - `${id}/`.length
  if (!/^[ -~]+$/.test(actor) || actor.length > longest) {
    throw new KitError(
      'PAWL_KIT_INVALID_ACTOR',
      `'${actor}' cannot be the name of an actor: it takes 1 to ${longest} printable ASCII characters.`,
    )
  }
  return `${id}/${actor}`
}

/** Returns the actor that an application_name belongs to. */
export function actorOf(id: string, name: string): string {
  return name.startsWith(`${id}/`) ? name.slice(id.length + 1) : name
}

/** Reads the backends of one actor, or of all except the kit itself. */
export async function readBackends(on: Queryable, id: string, actor: string | null): Promise<Backend[]> {
  const rows = await textRows(
    on,
    `SELECT pid, application_name, coalesce(state, '') AS state, coalesce(query, '') AS query, wait_event_type,
            array_to_json(pg_blocking_pids(pid)) AS blocked_by
       FROM pg_stat_activity
      WHERE starts_with(application_name, $1 || '/') AND backend_type = 'client backend'
        AND CASE WHEN $2::text IS NULL THEN application_name <> $3 ELSE application_name = $2 END
      ORDER BY backend_start, pid`,
    [id, actor === null ? null : applicationName(id, actor), applicationName(id, KIT)],
  )
  return rows.map((row) => ({
    pid: Number(row['pid']),
    actor: actorOf(id, row['application_name'] ?? ''),
    state: row['state'] ?? '',
    query: row['query'] ?? '',
    waitEventType: row['wait_event_type'] ?? null,
    blockedBy: JSON.parse(row['blocked_by'] ?? '[]') as number[],
  }))
}

/** Reads how long a session of the actor has been waiting for a lock on the whole table; 0 when none is waiting. */
export async function readTableWait(
  on: Queryable,
  id: string,
  actor: string,
  table: string,
): Promise<number> {
  const rows = await textRows(
    on,
    `SELECT max(extract(epoch FROM clock_timestamp() - l.waitstart) * 1000) AS ms
       FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
      WHERE a.application_name = $1 AND NOT l.granted AND l.locktype = 'relation' AND l.relation = $2::regclass`,
    [applicationName(id, actor), table],
  )
  // A wait that has just begun may have no start time yet.
  return Number(rows[0]?.['ms'] ?? 0)
}

/** Ends the backends of one actor. Resolves to their number when they are gone. */
export async function terminateActor(on: Queryable, id: string, actor: string): Promise<number> {
  const rows = await textRows(
    on,
    `SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()`,
    [applicationName(id, actor)],
  )
  await waitUntilGone(on, `pid = ANY ($1::int[]) AND application_name = $2`, [
    rows.map((row) => row['pid']),
    applicationName(id, actor),
  ])
  return rows.length
}

/** Ends those backends of a kit that are in the middle of something and may hold locks, except for the one that asks. */
export async function terminateBusy(on: Queryable, id: string): Promise<void> {
  const rows = await textRows(
    on,
    `SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE starts_with(application_name, $1 || '/') AND state IS DISTINCT FROM 'idle' AND pid <> pg_backend_pid()`,
    [id],
  )
  await waitUntilGone(on, `pid = ANY ($1::int[]) AND starts_with(application_name, $2 || '/')`, [
    rows.map((row) => row['pid']),
    id,
  ])
}

/** Resolves when no backend of the actor is left. */
export async function actorGone(on: Queryable, id: string, actor: string): Promise<void> {
  await waitUntilGone(on, `application_name = $1`, [applicationName(id, actor)])
}

async function waitUntilGone(on: Queryable, condition: string, values: unknown[]): Promise<void> {
  const giveUpAt = performance.now() + SIGNAL_TIMEOUT_MS
  // The server waits between two looks.
  const look = `SELECT string_agg(application_name || ' (' || coalesce(state, '') || ': ' || coalesce(query, '') || ')', ', ') AS left
                  FROM pg_stat_activity, pg_sleep(${BACKEND_POLL_MS} / 1000.0) WHERE ${condition}`
  for (;;) {
    const [row] = await textRows(on, look, values)
    if (row?.['left'] == null) return
    if (performance.now() > giveUpAt) {
      throw new KitError(
        'PAWL_KIT_TIMEOUT',
        `Waited ${SIGNAL_TIMEOUT_MS} ms for connections to end: ${row['left']}.`,
      )
    }
  }
}
