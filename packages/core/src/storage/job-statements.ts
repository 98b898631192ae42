import { defineStatement, epochMs, type Store } from './statement.js'
import type { Tables } from './tables.js'

type TextRow = Readonly<Record<string, string | null>>

/** A job's row. Times are milliseconds on the database's clock. */
export interface JobRow {
  readonly id: string
  readonly name: string
  readonly keyId: string
  readonly payloadJson: string
  readonly attempts: number
  readonly runAfterMs: number
  readonly lastError: string | null
  readonly createdMs: number
  readonly deadMs: number | null
}

const JOB_COLUMNS = `j.id, j.name, j.key_id, j.payload, j.attempts, ${epochMs('j.run_after')} AS run_after_ms,
       j.last_error, ${epochMs('j.created_at')} AS created_ms, ${epochMs('j.dead_at')} AS dead_ms`

function readJobRow(row: TextRow): JobRow {
  return {
    id: row['id'] ?? '',
    name: row['name'] ?? '',
    keyId: row['key_id'] ?? '',
    payloadJson: row['payload'] ?? 'null',
    attempts: Number(row['attempts']),
    runAfterMs: Number(row['run_after_ms']),
    lastError: row['last_error'] ?? null,
    createdMs: Number(row['created_ms']),
    deadMs: row['dead_ms'] == null ? null : Number(row['dead_ms']),
  }
}

/** In two parts, because there is an index for the living and one for the dead. */
const findJobsOfKeyStatement = defineStatement(
  'find_jobs_of_key',
  ({ stagedJobs }) => `
  (SELECT ${JOB_COLUMNS} FROM ${stagedJobs} AS j
    WHERE j.key_id = $1::uuid AND j.dead_at IS NULL ORDER BY j.seq LIMIT $2::integer)
  UNION ALL
  (SELECT ${JOB_COLUMNS} FROM ${stagedJobs} AS j
    WHERE j.key_id = $1::uuid AND j.dead_at IS NOT NULL ORDER BY j.dead_at LIMIT $2::integer)`,
)

/** Jobs that a key's phases staged and that are not delivered: those to come in their order, then the dead. */
export async function findJobsOfKey(store: Store, keyId: string, limit: number): Promise<JobRow[]> {
  const { rows } = await findJobsOfKeyStatement(store, [keyId, limit])
  return rows.map(readJobRow)
}

const findDeadJobsStatement = defineStatement(
  'find_dead_jobs',
  ({ stagedJobs }) => `
  SELECT ${JOB_COLUMNS} FROM ${stagedJobs} AS j
   WHERE j.dead_at IS NOT NULL AND ($1::text IS NULL OR j.name = $1)
   ORDER BY j.dead_at LIMIT $2::integer`,
)

/** Jobs that were given up, oldest first. `name` null: of any name. */
export async function findDeadJobs(store: Store, name: string | null, limit: number): Promise<JobRow[]> {
  const { rows } = await findDeadJobsStatement(store, [name, limit])
  return rows.map(readJobRow)
}

/**
 * Makes the chosen jobs new and writes each down: one statement, so that neither can be without the other. An array
 * instead of a join: the planner would rather read the whole table once than look five hundred jobs up.
 */
const requeueing =
  (chosen: (tables: Tables) => string) =>
  (tables: Tables): string =>
    `
  WITH chosen AS (${chosen(tables)}), requeued AS (
    UPDATE ${tables.stagedJobs} AS j
       SET dead_at = NULL, attempts = 0, run_after = clock_timestamp(), claim = NULL, claim_until = NULL
     WHERE j.id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING j.id
  ), noted AS (
    INSERT INTO ${tables.interventions} (key_id, scope, key, action, actor, reason, detail)
    SELECT chosen.key_id, k.scope, k.key, 'requeue', $1, $2,
           json_build_object('before', json_build_object('jobId', chosen.id, 'name', chosen.name,
             'attempts', chosen.attempts, 'deadAt', chosen.dead_at, 'lastError', chosen.last_error), 'given', $3::json)
      FROM requeued JOIN chosen ON chosen.id = requeued.id LEFT JOIN ${tables.keys} AS k ON k.id = chosen.key_id
  )
  SELECT id FROM requeued`

const CHOSEN_COLUMNS = 'j.id, j.key_id, j.name, j.attempts, j.dead_at, j.last_error'

const requeueTheseJobsStatement = defineStatement(
  'requeue_these_jobs',
  requeueing(
    ({ stagedJobs }) => `
    SELECT ${CHOSEN_COLUMNS} FROM ${stagedJobs} AS j
     WHERE j.id = ANY ($4::uuid[]) AND j.dead_at IS NOT NULL FOR UPDATE OF j SKIP LOCKED`,
  ),
)

/** Who has jobs delivered again. `givenJson`: by which choice. */
export interface Requeueing {
  readonly actor: string
  readonly reason: string
  readonly givenJson: string
}

/** Delivers these jobs again, those of them that are dead; gives how many. */
export async function requeueTheseJobs(
  store: Store,
  { actor, reason, givenJson }: Requeueing,
  jobIds: readonly string[],
): Promise<number> {
  const { rows } = await requeueTheseJobsStatement(store, [actor, reason, givenJson, jobIds])
  return rows.length
}

const readClockStatement = defineStatement(
  'read_clock',
  () => `SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000) AS now_ms`,
)

/** The database's clock, rounded up: all that has happened is before it. */
export async function readClock(store: Store): Promise<number> {
  const { rows } = await readClockStatement(store, [])
  return Number(rows[0]?.['now_ms'])
}

const requeueDeadJobsStatement = defineStatement(
  'requeue_dead_jobs',
  requeueing(
    ({ stagedJobs }) => `
    SELECT ${CHOSEN_COLUMNS} FROM ${stagedJobs} AS j
     WHERE j.dead_at <= to_timestamp($4::double precision / 1000) AND ($5::text IS NULL OR j.name = $5)
     ORDER BY j.dead_at LIMIT $6::integer FOR UPDATE OF j SKIP LOCKED`,
  ),
)

/** Delivers a batch of dead jobs again, of a name or (null) of any; gives how many. */
export async function requeueDeadJobs(
  store: Store,
  { actor, reason, givenJson }: Requeueing,
  which: { readonly deadByMs: number; readonly name: string | null; readonly limit: number },
): Promise<number> {
  const { deadByMs, name, limit } = which
  const { rows } = await requeueDeadJobsStatement(store, [actor, reason, givenJson, deadByMs, name, limit])
  return rows.length
}
