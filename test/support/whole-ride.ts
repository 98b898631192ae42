import { expect } from 'vitest'
import type { Provider } from './provider.js'
import type { TestDatabase } from './test-database.js'

/** Expects what a ride leaves behind, however it got there: exactly one of everything. */
export async function expectOneWholeRide(database: TestDatabase, provider: Provider): Promise<void> {
  const ledger = await provider.ledger()
  expect(ledger).toHaveLength(1)
  const charge = ledger[0]?.id
  expect(await database.rows('SELECT charge_id FROM rides')).toEqual([{ charge_id: charge }])
  expect(await database.rows('SELECT phase, reference FROM pawl.effects')).toEqual([
    { phase: 'charge_created', reference: charge },
  ])
  expect(await database.rows('SELECT name FROM pawl.staged_jobs')).toEqual([{ name: 'send_receipt' }])
  const [key] = await database.rows<{ status: string; trail: { p: string }[] }>(
    'SELECT status, trail FROM pawl.idempotency_keys',
  )
  expect(key?.status).toBe('finished')
  expect(key?.trail.map((entry) => entry.p)).toEqual(['ride_created', 'charge_created', 'finished'])
}
