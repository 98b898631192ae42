import { effectsBefore } from '../effects/find-last-effect.js'
import type { Tables } from '../tables.js'
import { unfinishedOf } from '../usage/count-unfinished-of-scope.js'

/** Whether a number is within its limit, which is a parameter, or there is none. */
const within = (limit: string, type: string, condition: string): string =>
  `(${limit}::${type} IS NULL OR ${condition} ${limit}::${type})`

/** What else is looked at, beside the unfinished keys of the scope. Each part is planned at every reservation. */
export interface Looks {
  /** Queries by name, each with one row. */
  readonly at: Readonly<Record<string, string>>
  /** Conditions by name, on what they have returned. */
  readonly fits: Readonly<Record<string, string>>
}

/**
 * $15: whether the key may run again. $16: the most unfinished keys of the scope. A row of `new`: the key and its effects are not known,
 * and what is within its limits; of `room`: all is. Few and plain parts, because each is parsed and planned at every reservation.
 */
export function looks(tables: Tables, { at, fits }: Looks): string {
  const all = { of_scope: unfinishedOf(tables, '$2', 'coalesce($16::integer, 0)', null), ...at }
  const conditions = Object.entries({ fits: within('$16', 'integer', 'of_scope.n <'), ...fits })
  return `
  WITH new AS (
    SELECT had.undone, ${conditions.map(([name, condition]) => `${condition} AS ${name}`).join(',\n           ')}
      FROM (${effectsBefore(tables, '$2', '$3')}) AS had${Object.entries(all)
        .map(([name, query]) => `,\n           (${query}) AS ${name}`)
        .join('')}
     WHERE NOT EXISTS (SELECT 1 FROM ${tables.keys} AS seen WHERE seen.scope = $2 AND seen.key = $3)
       AND (had.standing = 0 OR $15::boolean)
  ), room AS (
    SELECT 1 FROM new WHERE ${conditions.map(([name]) => name).join(' AND ')}
  )`
}

export const NOTHING_ELSE: Looks = { at: {}, fits: {} }

/** $19: the most bytes of the scope. $20: those of this key. */
export const bytesOfScope = ({ scopeUsage }: Tables): Looks => ({
  at: {
    stored: `
    SELECT coalesce(sum(u.bytes), 0::numeric) AS all_bytes FROM ${scopeUsage} AS u
     WHERE u.scope = $2 AND u.kind = 'stored_bytes'`,
  },
  fits: { fits_bytes: within('$19', 'numeric', '(all_bytes + $20::numeric) <=') },
})

/** $19: the most unfinished keys of the pipeline. $22, $23: the most bytes of the scope and of the pipeline. $24: those of this key. */
export const everythingElse = (tables: Tables): Looks => ({
  at: {
    of_pipeline: unfinishedOf(tables, '$2', 'coalesce($19::integer, 0)', '$4'),
    stored: `
    SELECT coalesce(sum(u.bytes), 0::numeric) AS all_bytes,
           coalesce(sum(u.bytes) FILTER (WHERE u.pipeline = $4), 0::numeric) AS pipeline_bytes
      FROM ${tables.scopeUsage} AS u
     WHERE u.scope = $2 AND u.kind = 'stored_bytes' AND $24::bigint > 0`,
  },
  fits: {
    fits_pipeline: within('$19', 'integer', 'of_pipeline.n <'),
    fits_bytes: within('$22', 'numeric', '(all_bytes + $24::numeric) <='),
    fits_pipeline_bytes: within('$23', 'numeric', '(pipeline_bytes + $24::numeric) <='),
  },
})
