import { afterAll, afterEach, expect, test } from 'vitest'
import { askForRide, expectBalancedBooks, newKey } from '../support/rides-client.js'
import { Rides, until } from '../support/rides-processes.js'

const rides = await Rides.start()
afterAll(() => rides.end())
afterEach(async () => {
  await expectBalancedBooks(rides)
  await expectOneReceiptPerCharge()
})

const { url } = await rides.startApi()

/** A file does not deduplicate, so a receipt may be in it twice; but then under the same id, as its reader would see. */
async function expectOneReceiptPerCharge(): Promise<void> {
  await until(
    'an empty queue',
    async () => (await rides.rows('SELECT id FROM graphile_worker.jobs')).length === 0,
  )
  const sent = new Map((await rides.receipts()).map((line) => [line.receipt, line]))
  const charges = [...sent.values()].map(({ charge_id }) => charge_id)
  const ledger = (await rides.ledger()).map(({ id }) => id)
  expect(charges.toSorted()).toEqual(ledger.toSorted())
}

async function ride(token = 'rider-1'): Promise<number> {
  return (await askForRide(url, newKey(), { token })).status
}

async function receiptsReach(count: number): Promise<void> {
  await until(`${count} receipts`, async () => (await rides.receipts()).length >= count)
}

/** What graphile-worker advises operators to do once they know that a worker is gone; by itself it waits for four hours. */
async function unlockJobsOfDeadWorker(): Promise<void> {
  await rides.rows(
    `SELECT graphile_worker.force_unlock_workers(array_agg(locked_by)) FROM graphile_worker.jobs
      WHERE locked_by IS NOT NULL HAVING count(*) > 0`,
  )
  // A job that comes back while its key is leased fails, and waits for longer than a test has.
  const leased = `SELECT id FROM pawl.idempotency_keys WHERE pipeline = 'send-receipt' AND lease_until > clock_timestamp()`
  await until('the end of its leases', async () => (await rides.rows(leased)).length === 0)
}

test('each charged ride gets one receipt, and a declined card none', async () => {
  const worker = await rides.startWorker()
  const before = (await rides.receipts()).length
  expect(await Promise.all([ride(), ride('rider-2'), ride(), ride('rider-declined')])).toEqual([
    201, 201, 201, 402,
  ])
  await receiptsReach(before + 3)
  worker.signal('SIGTERM')
  expect(await worker.ended).toBe('0')
  expect(await rides.receipts()).toHaveLength(before + 3)
})

test('rides that end while no worker is up get their receipts from the next one', async () => {
  const killed = await rides.startWorker()
  await killed.kill()
  const before = (await rides.receipts()).length
  expect(await Promise.all([ride(), ride()])).toEqual([201, 201])
  expect(await rides.receipts()).toHaveLength(before)
  const worker = await rides.startWorker()
  await receiptsReach(before + 2)
  worker.signal('SIGTERM')
  expect(await worker.ended).toBe('0')
})

test.each([
  ['before it sends', 'pawl:phase_committed ride_read', 0],
  ['after it has sent', 'pawl:phase_committed receipt_sent', 1],
])('a worker killed %s leaves a job that the next one ends with one receipt', async (_, crashAt, sent) => {
  const before = (await rides.receipts()).length
  const killed = await rides.startWorker({ crashAt })
  expect(await ride()).toBe(201)
  expect(await killed.ended).toBe('SIGKILL')
  expect(await rides.receipts()).toHaveLength(before + sent)
  await unlockJobsOfDeadWorker()
  const worker = await rides.startWorker()
  await until(
    'an empty queue',
    async () => (await rides.rows('SELECT id FROM graphile_worker.jobs')).length === 0,
  )
  worker.signal('SIGTERM')
  expect(await worker.ended).toBe('0')
  expect(await rides.receipts()).toHaveLength(before + 1)
})
