import { defineStatement, epochMs, type Store } from '../statement.js'

/** How many duplicates of each kind. */
export interface DuplicateCounts {
  readonly replayed: number
  readonly inFlight: number
  readonly mismatched: number
}

/** A span of time on the database's clock, `toMs` not included. */
export interface WindowMs {
  readonly fromMs: number
  readonly toMs: number
}

const within = (first: number): string =>
  `d.minute >= to_timestamp($${first}::double precision / 1000) AND d.minute < to_timestamp($${first + 1}::double precision / 1000)`

const SUMS = 'sum(d.replayed) AS replayed, sum(d.in_flight) AS in_flight, sum(d.mismatched) AS mismatched'

const findTopScopesStatement = defineStatement(
  'find_top_duplicates',
  ({ duplicates }) => `
  SELECT d.scope FROM ${duplicates} AS d WHERE ${within(1)}
   GROUP BY d.scope ORDER BY sum(d.replayed + d.in_flight + d.mismatched) DESC, d.scope LIMIT $3::integer`,
)

const findByPipelineStatement = defineStatement(
  'find_duplicates_by_pipeline',
  ({ duplicates }) => `
  SELECT d.scope, d.pipeline, ${SUMS} FROM ${duplicates} AS d
   WHERE d.scope = ANY ($1::text[]) AND ${within(2)}
   GROUP BY d.scope, d.pipeline ORDER BY d.scope, d.pipeline`,
)

const findByMinuteStatement = defineStatement(
  'find_duplicates_by_minute',
  ({ duplicates }) => `
  SELECT d.scope, ${epochMs('d.minute')} AS minute_ms, ${SUMS} FROM ${duplicates} AS d
   WHERE d.scope = ANY ($1::text[]) AND ${within(2)}
   GROUP BY d.scope, d.minute ORDER BY d.scope, d.minute`,
)

/** The scopes that sent most duplicates in a window, most first. */
export async function findTopScopes(store: Store, window: WindowMs, top: number): Promise<string[]> {
  const { rows } = await findTopScopesStatement(store, [window.fromMs, window.toMs, top])
  return rows.map((row) => row['scope'] ?? '')
}

/** Duplicates of these scopes, by pipeline. */
export async function findDuplicatesByPipeline(
  store: Store,
  scopes: readonly string[],
  window: WindowMs,
): Promise<(DuplicateCounts & { readonly scope: string; readonly pipeline: string })[]> {
  const { rows } = await findByPipelineStatement(store, [scopes, window.fromMs, window.toMs])
  return rows.map((row) => ({
    scope: row['scope'] ?? '',
    pipeline: row['pipeline'] ?? '',
    ...countsOf(row),
  }))
}

/** Duplicates of these scopes, minute by minute. */
export async function findDuplicatesByMinute(
  store: Store,
  scopes: readonly string[],
  window: WindowMs,
): Promise<(DuplicateCounts & { readonly scope: string; readonly minuteMs: number })[]> {
  const { rows } = await findByMinuteStatement(store, [scopes, window.fromMs, window.toMs])
  return rows.map((row) => ({
    scope: row['scope'] ?? '',
    minuteMs: Number(row['minute_ms']),
    ...countsOf(row),
  }))
}

function countsOf(row: Readonly<Record<string, string | null>>): DuplicateCounts {
  return {
    replayed: Number(row['replayed']),
    inFlight: Number(row['in_flight']),
    mismatched: Number(row['mismatched']),
  }
}
