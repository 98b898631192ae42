import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { lasting } from '../support/http-client.js'
import {
  askForRide,
  askUntilAnswered,
  expectBalancedBooks,
  newKey,
  pointOf,
  trailOf,
} from '../support/rides-client.js'
import { Rides, type RidesProcess, until } from '../support/rides-processes.js'

const rides = await Rides.start()
afterAll(() => rides.end())
await rides.startWorker()
afterEach(async () => {
  await expectBalancedBooks(rides)
  await expectOneReceiptPerCharge()
})

/** The number that Fastify's log has for a warning; errors are higher. */
const WARN = 40

async function expectOneReceiptPerCharge(): Promise<void> {
  const charges = (await rides.ledger()).map(({ id }) => id).toSorted()
  await until('the receipts', async () => (await rides.receipts()).length >= charges.length)
  expect((await rides.receipts()).map(({ charge_id }) => charge_id).toSorted()).toEqual(charges)
}

/** Sends the request once, and never again. Returns null where the connection broke. */
function sendOnce(api: RidesProcess, key: string): Promise<number | null> {
  return askForRide(api.url, key).then(
    ({ status }) => status,
    () => null,
  )
}

/** A ride whose process was killed at a point of the protocol, and whose client is gone. */
async function crashRideAt(crashAt: string): Promise<string> {
  const killed = await rides.startApi({ crashAt })
  const key = newKey()
  expect(await sendOnce(killed, key)).toBe(null)
  expect(await killed.ended).toBe('SIGKILL')
  return key
}

/** Rides whose process was killed when the provider had charged them, and before that was recorded. */
async function crashCharged(count: number): Promise<string[]> {
  const killed = await rides.startApi()
  const keys = Array.from({ length: count }, newKey)
  await rides.provoke(...keys.map(() => 'slow' as const))
  const charged = (await rides.ledger()).length + count
  const answers = keys.map((key) => sendOnce(killed, key))
  await until('the charges', async () => (await rides.ledger()).length === charged)
  await killed.kill()
  expect(await Promise.all(answers)).toEqual(keys.map(() => null))
  return keys
}

async function untilFinished(key: string): Promise<void> {
  await until(`the end of ${key}`, async () => (await pointOf(rides, key)) === 'finished')
}

/** How it ended: the stored answer, and under which fence. */
async function endOf(key: string): Promise<unknown> {
  const [row] = await rides.rows(
    'SELECT status, response_status, fence::int FROM pawl.idempotency_keys WHERE key = $1',
    [key],
  )
  return row
}

async function expectFinishedByCompleter(key: string): Promise<void> {
  await untilFinished(key)
  expect(await endOf(key)).toEqual({ status: 'finished', response_status: 201, fence: 2 })
  expect(await trailOf(rides, key)).toEqual(['ride_created', 'charge_created', 'finished'])
}

/** Ends a process as a deployment does, and returns the warnings that it has logged. */
async function endInOrder(api: RidesProcess): Promise<string[]> {
  api.signal('SIGTERM')
  expect(await api.ended).toBe('0')
  const lines = api.out.map((line) => JSON.parse(line) as { readonly level: number; readonly msg: string })
  return lines.filter(({ level }) => level >= WARN).map(({ msg }) => msg)
}

describe('a client that never retries', () => {
  test('has its ride finished by the next process, if its own is killed at ride_created', async () => {
    const key = await crashRideAt('pawl:phase_committed ride_created')
    const charges = (await rides.ledger()).length + 1
    const next = await rides.startApi()
    await expectFinishedByCompleter(key)
    expect(await rides.ledger()).toHaveLength(charges)
    await next.says('"completed":1')
    expect(await endInOrder(next)).toEqual([])
  })

  test('is not charged again by the next process, if its own is killed when the provider has charged', async () => {
    const [key = ''] = await crashCharged(1)
    const charges = await rides.ledger()
    const next = await rides.startApi()
    await expectFinishedByCompleter(key)
    expect(await rides.ledger()).toEqual(charges)
    expect(await endInOrder(next)).toEqual([])
  })

  test('has its ride finished by another process, if its own is frozen, and the woken one does no harm', async () => {
    const crashAt = 'pawl:phase_committed ride_created'
    const frozen = await rides.startApi({ crashAt, crashSignal: 'SIGSTOP' })
    const key = newKey()
    const woken = sendOnce(frozen, key)
    await until('the ride', async () => (await pointOf(rides, key)) === 'ride_created')
    const next = await rides.startApi()
    await expectFinishedByCompleter(key)
    frozen.signal('SIGCONT')
    expect(await woken).toBe(201)
    expect(await endOf(key)).toMatchObject({ fence: 2 })
    await Promise.all([endInOrder(frozen), endInOrder(next)])
  })
})

test('is charged once and gets one answer where two completers and retrying clients compete for its ride', async () => {
  const lost = await crashCharged(4)
  const unattended = [...lost, await crashRideAt('pawl:phase_committed ride_created')]
  const apis = await Promise.all([rides.startApi(), rides.startApi()])
  const ends = await Promise.all(
    unattended.map(async (key) => {
      const answers = await Promise.all(apis.map(({ url }) => askUntilAnswered(() => url, key)))
      return answers.map(({ answer }) => lasting(answer))
    }),
  )
  for (const [one, other] of ends) {
    expect(one).toMatchObject({ status: 201 })
    expect(other).toEqual(one)
  }
  for (const key of unattended) {
    expect(await trailOf(rides, key)).toEqual(['ride_created', 'charge_created', 'finished'])
  }
  expect(await Promise.all(apis.map(endInOrder))).toEqual([[], []])
})

describe('SIGTERM while the completer calls the provider', () => {
  test('lets the ride finish first where the provider is slow, and the process ends with 0', async () => {
    const key = await crashRideAt('pawl:phase_committed ride_created')
    await rides.provoke('slow')
    const charged = (await rides.ledger()).length + 1
    const api = await rides.startApi()
    await until('the charge', async () => (await rides.ledger()).length === charged)
    expect(await endInOrder(api)).toEqual([])
    await expectFinishedByCompleter(key)
  })

  test('ends the process with 0 even where the provider never answers, and the next one finishes the ride', async () => {
    const key = await crashRideAt('pawl:phase_committed ride_created')
    await rides.provoke('timeout_after')
    const charged = (await rides.ledger()).length + 1
    const api = await rides.startApi()
    await until('the charge', async () => (await rides.ledger()).length === charged)
    expect((await endInOrder(api)).toSorted()).toEqual([
      'a phase failed',
      'the completer was stopped before everything that it had begun was done',
    ])
    expect(await pointOf(rides, key)).toBe('ride_created')
    const next = await rides.startApi()
    await untilFinished(key)
    expect(await endOf(key)).toMatchObject({ status: 'finished', response_status: 201 })
    expect(await rides.ledger()).toHaveLength(charged)
    expect(await endInOrder(next)).toEqual([])
  })
})

test('expired keys are deleted, and their rides stay', async () => {
  const own = await Rides.start()
  try {
    const first = await own.startApi()
    const key = newKey()
    await askForRide(first.url, key)
    await own.rows(`UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() WHERE key = $1`, [key])
    // A reaper looks when it starts.
    await own.startApi()
    await until('the end of the key', async () => (await pointOf(own, key)) === null)
    expect(await own.rows('SELECT key_id FROM rides')).toEqual([{ key_id: null }])
  } finally {
    await own.end()
  }
})
