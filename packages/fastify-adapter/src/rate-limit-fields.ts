import { serializeList } from 'structured-headers'

/** A limit that was reached. */
export interface ReachedLimit {
  readonly name: 'new_keys' | 'unfinished'
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
  const window: [string, number | string] =
    perMs === null ? ['qu', 'concurrent-requests'] : ['w', Math.ceil(perMs / SECOND_MS)]
  const left = new Map([
    ['r', 0],
    ['t', Math.ceil(retryAfterMs / SECOND_MS)],
  ])
  return {
    'ratelimit-policy': serializeList([[name, new Map<string, number | string>([['q', max], window])]]),
    ratelimit: serializeList([[name, left]]),
  }
}
