import type { CompiledQuery } from 'kysely'
import type { PhaseTransaction } from '../driver/kysely-driver.js'
import { disarmPromise } from '../disarm-promise.js'
import { PawlError } from '../errors.js'
import type { Write } from '../pipeline/phase.js'

const WRITES: ReadonlySet<string> = new Set([
  'InsertQueryNode',
  'UpdateQueryNode',
  'DeleteQueryNode',
  'MergeQueryNode',
])

/** `write` as one phase sees it: bound to its transaction. */
export function writeIn({ connection }: PhaseTransaction, phase: string): Write {
  return (query) => {
    connection.assertOpen()
    const { sql, parameters } = compiledWrite(query, phase)
    connection.transaction.later(sql, parameters.map(asItIsNow), phase)
  }
}

/** Nobody would get what the statement returns, and raw SQL could be anything: a setting, or a COMMIT. */
function compiledWrite(query: unknown, phase: string): CompiledQuery {
  const compiled = compiledBy(query)
  const node = compiled?.query as { readonly kind: string; readonly returning?: unknown } | undefined
  if (compiled !== null && node !== undefined && WRITES.has(node.kind) && node.returning === undefined)
    return compiled
  // It may be that of a query that was executed, and nobody else would handle its error.
  disarmPromise(query)
  throw new PawlError(
    'PAWL_INVALID_QUERY',
    `write of phase '${phase}' takes an insert, update, delete or merge of Kysely, without returning and not yet executed. ` +
      'Execute anything else with tx, and await it.',
  )
}

/** Raw SQL has a `compile` as well, which needs an executor. */
function compiledBy(query: unknown): CompiledQuery | null {
  const { compile } = (query ?? {}) as { readonly compile?: () => CompiledQuery }
  const { isRawBuilder = false } = (query ?? {}) as { readonly isRawBuilder?: boolean }
  return typeof compile === 'function' && !isRawBuilder ? compile.call(query) : null
}

/**
 * The value as `pg` would send it now: the phase may go on to change an object after it has handed it over. `pg` sends
 * objects as JSON, and arrays as arrays of PostgreSQL.
 */
function asItIsNow(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(asItIsNow)
  if (value instanceof Date) return new Date(value)
  if (ArrayBuffer.isView(value))
    return Buffer.from(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
  return typeof (value as { toPostgres?: unknown }).toPostgres === 'function' ? value : JSON.stringify(value)
}
