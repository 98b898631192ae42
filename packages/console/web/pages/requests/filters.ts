import type { StuckReason } from '@pawl/core'
import type { QueryValues } from '../../api/client.js'
import { REASON_TEXT } from '../../format/stuck-reason.js'

export const STATUSES = ['unfinished', 'running', 'unattended', 'stuck', 'finished'] as const
type Status = (typeof STATUSES)[number]

export const STATUS_TEXT: Readonly<Record<Status, string>> = {
  unfinished: 'Unfinished',
  running: 'Running',
  unattended: 'Unattended',
  stuck: 'Stuck',
  finished: 'Finished',
}

export const STUCK_REASONS = Object.keys(REASON_TEXT).filter(
  (reason) => reason !== 'unattended_for_long',
) as StuckReason[]

const HOUR_MS = 3_600_000

/** How old a request is at least. */
export const AGES = [
  { ms: 60_000, text: 'a minute' },
  { ms: 10 * 60_000, text: '10 minutes' },
  { ms: HOUR_MS, text: 'an hour' },
  { ms: 24 * HOUR_MS, text: 'a day' },
] as const

/** What the address of the page says, as the API takes it. */
export interface Filters {
  readonly status: string
  readonly pipeline: string
  readonly version: string
  readonly point: string
  readonly scope: string
  readonly stuckReason: string
  readonly olderThanMs: string
}

const NAMES = [
  'status',
  'pipeline',
  'version',
  'point',
  'scope',
  'stuckReason',
  'olderThanMs',
] as const satisfies readonly (keyof Filters)[]

export function readFilters(query: Readonly<Record<string, string>>): Filters {
  const filters = Object.fromEntries(NAMES.map((name) => [name, query[name] ?? ''])) as unknown as Filters
  return { ...filters, status: filters.status === '' ? 'unfinished' : filters.status }
}

/** Without what is so anyway, so that addresses stay short. */
export function queryOf(filters: Filters): QueryValues {
  return { ...filters, status: filters.status === 'unfinished' ? '' : filters.status }
}
