import { COUNT_LIMIT } from '../../limits.js'
import { NOW } from '../statement.js'
import type { Tables } from '../tables.js'

/** What an unfinished key waits for: a person, its holder, its back-off, or a completer. */
export const CONDITION = `CASE WHEN k.status = 'stuck' THEN 'stuck' WHEN k.lease_until > ${NOW} THEN 'held'
            WHEN k.run_after > ${NOW} THEN 'backing_off' ELSE 'unattended' END`

/** Keys of atomic handlers wait for their client: no completer runs them. */
export const FOR_A_COMPLETER = `k.kind = 'pipeline'`

/** A bounded number of unfinished keys, through the index that holds only keys of that status. */
export const unfinished = ({ keys }: Tables, status: 'running' | 'stuck', where = 'true'): string => `
    (SELECT k.* FROM ${keys} AS k WHERE k.status = '${status}' AND ${where}
      ORDER BY k.pipeline, k.version, k.created_at LIMIT ${COUNT_LIMIT})`

export const bothUnfinished = (tables: Tables, where?: string): string =>
  `(${unfinished(tables, 'running', where)} UNION ALL ${unfinished(tables, 'stuck', where)}) AS k`
