import { PawlError } from '../../errors.js'
import type { Store } from '../statement.js'
import { countUnfinishedOfScope } from '../usage/count-unfinished-of-scope.js'
import { returnToken } from '../usage/return-token.js'
import type { MetLimit, ScopeLimits } from '../usage/scope-limit.js'
import { type BucketName, takeToken } from '../usage/take-token.js'
import type { Rate } from '../usage/bucket.js'
import { type FirstGrant, insertKey, type NewKey } from './insert-key.js'
import type { LimitedInsert } from './insert-limited-key.js'

/** With a statement for each limit. The caller has looked for the key and its effects. */
export async function insertOverServers(
  store: Store,
  key: NewKey,
  grant: FirstGrant,
  runsAgain: boolean,
  limits: ScopeLimits,
): Promise<LimitedInsert> {
  const { scope } = key
  const parts = [
    { of: 'scope', pipeline: null, limit: limits.ofScope },
    { of: 'pipeline', pipeline: key.pipeline, limit: limits.ofPipeline },
  ] as const
  for (const { of, pipeline, limit } of parts) {
    if (limit?.storedBytes != null) throw notOverServers()
    const most = limit?.unfinished ?? null
    if (most !== null && (await countUnfinishedOfScope(store, { scope, pipeline }, most)) >= most)
      return { type: 'limited', limit: 'unfinished', of, waitMs: null }
  }
  const taken: (readonly [BucketName, Rate])[] = []
  const giveBack = async (): Promise<void> => {
    for (const [bucket, rate] of taken) await returnToken(store, bucket, rate)
  }
  for (const { of, pipeline, limit } of parts) {
    const rate = limit?.newKeys ?? null
    if (rate === null) continue
    const bucket = { scope, kind: 'new_keys', pipeline } as const
    const waitMs = await takeToken(store, bucket, rate)
    if (waitMs !== null) {
      await giveBack()
      return { type: 'limited', limit: 'new_keys', of, waitMs } satisfies { type: 'limited' } & MetLimit
    }
    taken.push([bucket, rate])
  }
  const row = await insertKey(store, key, grant, runsAgain)
  if (row !== null) return { type: 'inserted', row }
  await giveBack()
  return { type: 'not_inserted' }
}

function notOverServers(): PawlError {
  return new PawlError(
    'PAWL_INVALID_OPTION',
    'limits: storedBytes is given, but the tables are distributed over several servers (Citus), where bytes are not counted. Leave it out.',
  )
}
