import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import type { TestDatabase } from './test-database.js'

/** What ann sends by default. */
const ANN = { authorization: 'Bearer ann', 'idempotency-key': 'k1' }

/** Sends a ride of ann's under the key k1, changed by `more`, whose headers are added to hers. */
export function send(app: FastifyInstance, more: InjectOptions = {}): Promise<LightMyRequestResponse> {
  const { headers, ...rest } = more
  return app.inject({
    method: 'POST',
    url: '/rides',
    payload: { amount: 20 },
    ...rest,
    headers: { ...ANN, ...headers },
  })
}

/** The same without a key. */
export function sendWithoutKey(
  app: FastifyInstance,
  more: InjectOptions = {},
): Promise<LightMyRequestResponse> {
  return app.inject({
    method: 'POST',
    url: '/rides',
    payload: { amount: 20 },
    ...more,
    headers: { authorization: ANN.authorization },
  })
}

/** A request whose JSON is exactly this text. */
export function json(text: string): InjectOptions {
  return { payload: text, headers: { 'content-type': 'application/json' } }
}

export interface KeyRow {
  readonly id: string
  readonly scope: string
  readonly key: string
  readonly status: string
  readonly recovery_point: string
  readonly response_status: number | null
  readonly lease_until: Date | null
  readonly expires_at: Date | null
}

export function keyRows(database: TestDatabase): Promise<KeyRow[]> {
  return database.rows<KeyRow & Record<string, unknown>>(
    'SELECT * FROM pawl.idempotency_keys ORDER BY scope, key',
  )
}

/** What phases have written. */
export async function audit(database: TestDatabase): Promise<string[]> {
  const rows = await database.rows<{ what: string }>('SELECT what FROM audit ORDER BY what')
  return rows.map(({ what }) => what)
}
