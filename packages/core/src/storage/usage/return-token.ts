import type { Rate } from './bucket.js'
import { defineStatement, type Store } from '../statement.js'

const returnTokenStatement = defineStatement(
  'return_token',
  ({ scopeUsage }) => `
  UPDATE ${scopeUsage} AS u SET tokens = least($3::double precision, u.tokens + 1::double precision)
   WHERE u.scope = $1 AND u.pipeline = $2`,
)

/** Another attempt of the same request had the key first, so that this one has taken a token for nothing. */
export async function returnToken(store: Store, scope: string, rate: Rate): Promise<void> {
  await returnTokenStatement(store, [scope, '', rate.max], 'write_soon')
}
