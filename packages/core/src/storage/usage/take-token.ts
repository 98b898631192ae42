import {
  type BucketKind,
  fromFullBucket,
  isBucket,
  type Rate,
  takingToken,
  tokensAt,
  waitForToken,
} from './bucket.js'
import { defineStatement, NOW, type Store } from '../statement.js'

const BUCKET = { scope: '$1', kind: '$2', pipeline: '$3', max: '$4', perMs: '$5' }

const takeTokenStatement = defineStatement(
  'take_token',
  ({ scopeUsage }) => `${takingToken(scopeUsage, `VALUES (${fromFullBucket(NOW, BUCKET)})`, BUCKET)}
  RETURNING u.tokens`,
)

const findTokensStatement = defineStatement(
  'find_tokens',
  ({ scopeUsage }) => `
  SELECT ${tokensAt(NOW, BUCKET)} AS tokens FROM ${scopeUsage} AS u WHERE ${isBucket(BUCKET)}`,
)

/** Names a bucket. `pipeline`: null stands for all of them. */
export interface BucketName {
  readonly scope: string
  readonly kind: BucketKind
  readonly pipeline: string | null
}

/** For look-ups, and for tables over servers, where a reservation cannot take it by itself. Returns null once it is taken, or how long to wait. */
export async function takeToken(store: Store, bucket: BucketName, rate: Rate): Promise<number | null> {
  const values = [bucket.scope, bucket.kind, bucket.pipeline ?? '', rate.max, rate.perMs]
  const { rows } = await takeTokenStatement(store, values, 'write_soon')
  if (rows.length > 0) return null
  // One that is not there any more was empty a moment ago.
  return waitForToken(rate, (await findTokens(store, bucket, rate)) ?? 0)
}

/** How many tokens a bucket has by now, without a lock; null where it is not there. */
export async function findTokens(store: Store, bucket: BucketName, rate: Rate): Promise<number | null> {
  const values = [bucket.scope, bucket.kind, bucket.pipeline ?? '', rate.max, rate.perMs]
  const { rows } = await findTokensStatement(store, values, 'read')
  const tokens = rows[0]?.['tokens']
  return tokens == null ? null : Number(tokens)
}
