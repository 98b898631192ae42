import type { StuckReason } from '@pawl/core'
import type { FastifyRequest } from 'fastify'
import type { RequestList } from '../api.js'
import type { ConsoleContext } from '../console-context.js'
import { DEFAULT_PAGE_ROWS, MAX_AGE_MS, MAX_PAGE_ROWS } from '../limits.js'
import { oneOf, readQuery, wholeNumber } from '../parse-query.js'
import { listed } from '../views/shown-key.js'

const NAMES = [
  'status',
  'pipeline',
  'version',
  'point',
  'scope',
  'stuckReason',
  'olderThanMs',
  'limit',
  'after',
] as const
const STATUSES = ['unfinished', 'running', 'unattended', 'stuck', 'finished'] as const
/** In the order in which the inbox shows them: money may have moved, first. */
export const STUCK_REASONS = [
  'unknown_outcome',
  'window_passed',
  'attempts_exhausted',
  'too_old',
  'transaction_ended',
] as const satisfies readonly StuckReason[]

const MAX_VERSION = 2 ** 31 - 1

/** A page of the keys that match. */
export async function listRequests(console: ConsoleContext, request: FastifyRequest): Promise<RequestList> {
  const query = readQuery(request.query, NAMES)
  const { keys, next } = await console.reader.page({
    ...defined({
      status: oneOf(query, 'status', STATUSES),
      pipeline: query['pipeline'],
      version: wholeNumber(query, 'version', 1, MAX_VERSION),
      recoveryPoint: query['point'],
      scope: query['scope'],
      stuckReason: oneOf(query, 'stuckReason', STUCK_REASONS),
      olderThanMs: wholeNumber(query, 'olderThanMs', 0, MAX_AGE_MS),
      after: query['after'],
    }),
    limit: wholeNumber(query, 'limit', 1, MAX_PAGE_ROWS) ?? DEFAULT_PAGE_ROWS,
  })
  return { rows: keys.map(listed), next }
}

type Defined<T> = { readonly [Name in keyof T]?: Exclude<T[Name], undefined> }

/** Without the members that were not given: core takes a member that is undefined for a mistake. */
export function defined<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>
}
