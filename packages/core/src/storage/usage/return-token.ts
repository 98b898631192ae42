import { isBucket, type Rate } from './bucket.js'
import { defineStatement, type Store } from '../statement.js'
import type { BucketName } from './take-token.js'

const BUCKET = { scope: '$1', kind: '$2', pipeline: '$3', max: '$4', perMs: '' }

const returnTokenStatement = defineStatement(
  'return_token',
  ({ scopeUsage }) => `
  UPDATE ${scopeUsage} AS u SET tokens = least($4::double precision, u.tokens + 1::double precision)
   WHERE ${isBucket(BUCKET)}`,
)

/** Another attempt of the same request had the key first, or another bucket was empty: a token was taken for nothing. */
export async function returnToken(store: Store, bucket: BucketName, { max }: Rate): Promise<void> {
  await returnTokenStatement(store, [bucket.scope, bucket.kind, bucket.pipeline ?? '', max], 'write_soon')
}
