import type { Store } from '../statement.js'
import { waitForToken } from './bucket.js'
import type { MetLimit, ScopeLimits } from './scope-limit.js'
import { findTokens } from './take-token.js'

interface LimitedKey {
  readonly scope: string
  readonly pipeline: string
}

/** Which limit kept the key from being inserted; null if none did. `row`: what the reservation has returned. */
export async function limitMet(
  store: Store,
  key: LimitedKey,
  limits: ScopeLimits,
  row: Readonly<Record<string, string | null>>,
): Promise<MetLimit | null> {
  // Missing where the key or an effect of it is known.
  if (row['passed'] === 't' || row['fits'] == null) return null
  if (row['fits'] === 'f') return { limit: 'unfinished', of: 'scope', waitMs: null }
  if (row['fits_pipeline'] === 'f') return { limit: 'unfinished', of: 'pipeline', waitMs: null }
  if (row['fits_bytes'] === 'f') return { limit: 'stored_bytes', of: 'scope', waitMs: null }
  if (row['fits_pipeline_bytes'] === 'f') return { limit: 'stored_bytes', of: 'pipeline', waitMs: null }
  return emptyBucket(store, key, limits)
}

/** The bucket that has no token; of two, the one that has to be waited for longer. */
async function emptyBucket(
  store: Store,
  { scope, pipeline }: LimitedKey,
  { ofScope, ofPipeline }: ScopeLimits,
): Promise<MetLimit | null> {
  const buckets = [
    { of: 'scope', name: null, rate: ofScope?.newKeys ?? null },
    { of: 'pipeline', name: pipeline, rate: ofPipeline?.newKeys ?? null },
  ] as const
  const met = []
  for (const { of, name, rate } of buckets) {
    if (rate === null) continue
    // One that is not there is full: nobody has taken a token from it.
    const tokens = (await findTokens(store, { scope, kind: 'new_keys', pipeline: name }, rate)) ?? rate.max
    met.push({ of, waitMs: waitForToken(rate, tokens), isEmpty: tokens < 1 })
  }
  // Meanwhile, even the empty one may have a token again.
  const [first] = met.toSorted((a, b) => Number(b.isEmpty) - Number(a.isEmpty) || b.waitMs - a.waitMs)
  return first === undefined ? null : { limit: 'new_keys', of: first.of, waitMs: first.waitMs }
}
