import type { QueryResult } from 'pg'
import type { Bound } from '../driver/outgoing.js'
import type { Alone } from '../driver/stand-alone.js'
import type { Store } from './statement.js'

/**
 * Runs a statement that belongs to no request, and comes whenever an engine needs it: tests that stop at every statement of a
 * request do not stop there.
 */
export function runUnnamed(
  { session }: Pick<Store, 'session'>,
  { statement, values }: Bound,
  does?: Alone,
): Promise<QueryResult<Record<string, string | null>>> {
  return session.run({ name: '', text: statement.text }, values, does)
}
