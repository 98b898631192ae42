import { type Rate, takingToken, tokensNow, waitForToken } from './bucket.js'
import { defineStatement, NOW, type Store } from '../statement.js'

const takeTokenStatement = defineStatement(
  'take_token',
  ({ scopeUsage }) => `
  INSERT INTO ${scopeUsage} AS u (scope, pipeline, tokens, refilled_at)
  VALUES ($1, $2, $3::double precision - 1::double precision, ${NOW})${takingToken('$3', '$4')}
  RETURNING u.tokens`,
)

const findTokensStatement = defineStatement(
  'find_tokens',
  ({ scopeUsage }) => `
  SELECT ${tokensNow('$3', '$4')} AS tokens FROM ${scopeUsage} AS u WHERE u.scope = $1 AND u.pipeline = $2`,
)

/** For tables over servers, where a reservation cannot take it by itself. Returns null once it is taken, or how long to wait. */
export async function takeToken(store: Store, scope: string, rate: Rate): Promise<number | null> {
  const values = [scope, '', rate.max, rate.perMs]
  const { rows } = await takeTokenStatement(store, values)
  if (rows.length > 0) return null
  const found = await findTokensStatement(store, values, 'read')
  return waitForToken(rate, Number(found.rows[0]?.['tokens'] ?? 0))
}
