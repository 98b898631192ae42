import {
  createBackground,
  type EngineOptions,
  type ReaperCounts,
  type ReaperOptions,
  respond,
  type Service,
} from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { onTestFinished } from 'vitest'
import { type Database, pipeline } from './rides.js'
import type { TestDatabase } from './test-database.js'

/** A pipeline for an engine to know. A reaper needs no more. */
export const note = pipeline<null>({ name: 'note', version: 1 }).finish(() => respond(204))

/** Finished keys of a scope that expired a day ago, one millisecond apart. */
export async function insertExpired(
  database: TestDatabase,
  count: number,
  scope = 'expired',
): Promise<string[]> {
  const rows = await database.rows<{ id: string }>(
    `INSERT INTO pawl.idempotency_keys
       (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder, status,
        recovery_point, response_status, response_headers, response_body, expires_at)
     SELECT $1, n::text, 'note', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid(), 'finished',
            'finished', 204, '{}', '', clock_timestamp() - interval '1 day' + n * interval '1 ms'
       FROM generate_series(1, $2::integer) AS n
     RETURNING id`,
    [scope, count],
  )
  return rows.map(({ id }) => id)
}

export async function keysLeft(database: TestDatabase): Promise<string[]> {
  const rows = await database.rows<{ id: string }>('SELECT id FROM pawl.idempotency_keys ORDER BY expires_at')
  return rows.map(({ id }) => id)
}

/** What a test does at a statement. The engine waits only if there is something to wait for. */
type Meanwhile = (step: string) => void | Promise<void>

/** Does it at the statements with one name, and nothing at the others. */
export const at =
  (step: string, work: () => Promise<void>): Meanwhile =>
  (passed) =>
    passed === step ? work() : undefined

/** A reaper on its own engine, and the names of the statements that it has sent. */
export function countedReaper(
  database: TestDatabase,
  reaper: ReaperOptions = {},
  options: Partial<EngineOptions<Database>> = {},
  after: Meanwhile = () => {},
  before: Meanwhile = () => {},
): { readonly reaper: Service<ReaperCounts>; readonly sent: string[] } {
  const sent: string[] = []
  const engine = createProbedEngine<Database>(
    { pool: database.pool({ max: 2 }), pipelines: [note], schema: database.schema, ...options },
    ({ phase, step, when }) => {
      if (phase !== 'reaper') return
      if (when === 'before') sent.push(step)
      return when === 'before' ? before(step) : after(step)
    },
  )
  const background = createBackground({ engine, completer: false, reaper: { pauseMs: 0, ...reaper } })
  if (background.reaper === null) throw new Error('there is no reaper')
  onTestFinished(async () => {
    await background.stop()
    await engine.close()
  })
  return { reaper: background.reaper, sent }
}

/** How many of the statements that were sent have this name. */
export const countOf = (sent: readonly string[], step: string): number =>
  sent.filter((name) => name === step).length
