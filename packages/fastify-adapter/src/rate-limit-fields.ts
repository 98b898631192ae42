import type { Outcome } from '@pawl/core'
import { serializeList } from 'structured-headers'

type LimitName = Extract<Outcome, { type: 'limited' }>['limit']

/** A limit that was reached. */
export interface ReachedLimit {
  /** Limits of one pipeline have names of their own: a client may meet both. */
  readonly name: LimitName | `pipeline_${LimitName}` | 'lookups'
  readonly max: number
  /** In which time; null for what is limited at any one moment. */
  readonly perMs: number | null
}

const SECOND_MS = 1_000

/** The fields of draft-ietf-httpapi-ratelimit-headers-10, by name: the quota and its window, what is left, and when to come back. */
export function rateLimitFields(
  { name, max, perMs }: ReachedLimit,
  retryAfterMs: number,
): Readonly<Record<string, string>> {
  const unit = name.endsWith('stored_bytes') ? 'content-bytes' : 'concurrent-requests'
  const window: [string, number | string] =
    perMs === null ? ['qu', unit] : ['w', Math.ceil(perMs / SECOND_MS)]
  const left = new Map([
    ['r', 0],
    ['t', Math.ceil(retryAfterMs / SECOND_MS)],
  ])
  return {
    'ratelimit-policy': serializeList([[name, new Map<string, number | string>([['q', max], window])]]),
    ratelimit: serializeList([[name, left]]),
  }
}
