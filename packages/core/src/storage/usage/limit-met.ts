import { type Rate, waitForToken } from './bucket.js'
import type { MetLimit, ScopeLimits } from './scope-limit.js'

type Returned = Readonly<Record<string, string | null>>

/** Which limit kept the key from being inserted; null if none did. */
export function limitMet(row: Returned, { ofScope, ofPipeline }: ScopeLimits): MetLimit | null {
  // Null where the key or an effect of it is known.
  if (row['passed'] === 't' || row['fits'] == null) return null
  if (row['fits'] === 'f') return { limit: 'unfinished', of: 'scope', waitMs: null }
  if (row['fits_pipeline'] === 'f') return { limit: 'unfinished', of: 'pipeline', waitMs: null }
  if (row['fits_bytes'] === 'f') return { limit: 'stored_bytes', of: 'scope', waitMs: null }
  if (row['fits_pipeline_bytes'] === 'f') return { limit: 'stored_bytes', of: 'pipeline', waitMs: null }
  const waits = [
    waitFor('scope', ofScope?.newKeys, row['tokens']),
    waitFor('pipeline', ofPipeline?.newKeys, row['pipeline_tokens']),
  ].filter((each) => each !== null)
  // Both have to have a token, so the longer wait counts.
  return waits.toSorted((a, b) => (b.waitMs ?? 0) - (a.waitMs ?? 0))[0] ?? null
}

function waitFor(
  of: MetLimit['of'],
  rate: Rate | null | undefined,
  tokens: string | null | undefined,
): MetLimit | null {
  return rate == null ? null : { limit: 'new_keys', of, waitMs: waitForToken(rate, Number(tokens ?? 0)) }
}
