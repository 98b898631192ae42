import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { type Received, send } from './http-client.js'
import type { Rides } from './rides-processes.js'

export const RIDE = { origin_lat: 37.7749, origin_lon: -122.4194, target_lat: 37.6213, target_lon: -122.379 }

/** The price of every ride. */
export const PRICE = { amount: 2_000, currency: 'usd' }

/** With one retry per `RETRY_PAUSE_MS`, these take longer than a lease takes to run out. */
const MAX_RETRIES = 200
const RETRY_PAUSE_MS = 100

/** A key that no other test uses. */
export function newKey(): string {
  return `ride-${randomUUID()}`
}

/** Asks for a ride once, as `rider-1` unless it says otherwise. */
export async function askForRide(
  url: string,
  key: string,
  { token = 'rider-1', body = RIDE }: { readonly token?: string; readonly body?: unknown } = {},
): Promise<Received> {
  return send(url, { body, headers: { authorization: `Bearer ${token}`, 'idempotency-key': key } })
}

/** Asks until there is a final answer, as a good client does. An attempt without any answer counts as null. */
export async function askUntilAnswered(
  url: () => string,
  key: string,
): Promise<{ readonly answer: Received; readonly seen: readonly (number | null)[] }> {
  const seen: (number | null)[] = []
  while (seen.length < MAX_RETRIES) {
    const answer = await askForRide(url(), key).catch(() => null)
    seen.push(answer?.status ?? null)
    if (answer !== null && answer.status !== 409 && answer.status < 500) return { answer, seen }
    await sleep(RETRY_PAUSE_MS)
  }
  throw new Error(`no final answer: ${seen.join(', ')}`)
}

export function json({ body }: Received): Record<string, unknown> {
  return JSON.parse(body.toString()) as Record<string, unknown>
}

/** How far a request came, according to the database. */
export async function pointOf(rides: Rides, key: string): Promise<string | null> {
  const sql = 'SELECT recovery_point FROM pawl.idempotency_keys WHERE key = $1'
  const [row] = await rides.rows<{ recovery_point: string }>(sql, [key])
  return row?.recovery_point ?? null
}

/** The recovery points that a request committed, in order. */
export async function trailOf(rides: Rides, key: string): Promise<string[]> {
  const sql = 'SELECT trail FROM pawl.idempotency_keys WHERE key = $1'
  const [row] = await rides.rows<{ trail: { p: string }[] }>(sql, [key])
  return (row?.trail ?? []).map(({ p }) => p)
}

/**
 * Compares the provider's ledger with the database: one charge per ride, one ride per key, equal amounts. It is for when
 * every request has ended, or is known to go no further.
 */
export async function expectBalancedBooks(rides: Rides): Promise<void> {
  const ledger = await rides.ledger()
  const charged = await rides.rows<{ charge_id: string }>(
    `SELECT r.charge_id, e.provider_key AS reference, r.amount, r.currency
       FROM rides AS r LEFT JOIN pawl.effects AS e ON e.key_id = r.key_id AND e.reference = r.charge_id
      WHERE r.charge_id IS NOT NULL`,
  )
  const entries = ledger.map(({ id, reference, amount, currency }) => ({
    charge_id: id,
    reference,
    amount,
    currency,
  }))
  expect(byCharge(entries)).toEqual(byCharge(charged))
  expect(new Set(ledger.map(({ reference }) => reference)).size).toBe(ledger.length)
  expect(await rides.rows(OUT_OF_ORDER)).toEqual([])
  expect(await rides.rows(RIDES_BESIDES)).toEqual([])
}

/** Keys without their one ride and its one audit record, or whose answer does not fit what was charged. */
const OUT_OF_ORDER = `
  SELECT k.key, k.status, k.recovery_point, k.response_status, count(DISTINCT r.id) AS rides, count(a.id) AS records
    FROM pawl.idempotency_keys AS k
    LEFT JOIN rides AS r ON r.key_id = k.id
    LEFT JOIN audit_records AS a
           ON a.resource_id = r.id AND a.action = 'ride.created' AND a.user_id = r.user_id
   WHERE k.pipeline = 'create-ride'
   GROUP BY k.id, k.scope
  HAVING count(DISTINCT r.id) <> 1 OR count(a.id) <> 1
      OR (k.response_status IS NOT DISTINCT FROM 201) <> (count(r.charge_id) = 1)`

/** Rides without a key. */
const RIDES_BESIDES = 'SELECT id FROM rides WHERE key_id IS NULL'

function byCharge<Entry extends { readonly charge_id: string }>(entries: readonly Entry[]): Entry[] {
  return entries.toSorted((one, other) => (one.charge_id < other.charge_id ? -1 : 1))
}
