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
import { type ApiOptions, Rides, type RidesProcess, until } from '../support/rides-processes.js'

const rides = await Rides.start()
afterAll(() => rides.end())
afterEach(async () => {
  await expectBalancedBooks(rides)
  await expectOneJobPerCharge()
})

/** Short, since tests wait for it; long enough for the stand-in to answer on a busy machine. */
const STRIPE_TIMEOUT_MS = 1_000

/** Without completers: here the client comes back, and what it meets must not depend on who is faster. */
function startApi(options: ApiOptions = {}): Promise<RidesProcess> {
  return rides.startApi({ ...options, env: { BACKGROUND: 'off', ...options.env } })
}

// Always up, to take over from the processes that are killed.
const survivor = await startApi({ env: { STRIPE_TIMEOUT_MS: String(STRIPE_TIMEOUT_MS) } })

/** Nobody works on the queue here, so every receipt that was ever staged is still in it. */
async function expectOneJobPerCharge(): Promise<void> {
  const jobs = await rides.rows('SELECT task_identifier FROM graphile_worker.jobs')
  expect(jobs).toEqual((await rides.ledger()).map(() => ({ task_identifier: 'send_receipt' })))
}

/** Sends a request, and waits until the provider has charged it. Its answer is still on the way. */
async function sendUntilCharged(
  api: RidesProcess,
  key: string,
): Promise<{ readonly answer: Promise<number | null> }> {
  await rides.provoke('slow')
  const charged = (await rides.ledger()).length + 1
  const answer = statusOf(api, key)
  await until('the charge', async () => (await rides.ledger()).length === charged)
  return { answer }
}

/** The status, or null where the connection broke. */
function statusOf(api: RidesProcess, key: string): Promise<number | null> {
  return askForRide(api.url, key).then(
    ({ status }) => status,
    () => null,
  )
}

/** A ride that was left behind gets one answer, later ones replay it, and each phase committed once. */
async function expectTakenOver(key: string): Promise<void> {
  const { answer } = await askUntilAnswered(() => survivor.url, key)
  expect(answer.status).toBe(201)
  expect(lasting(await askForRide(survivor.url, key))).toEqual(lasting(answer))
  expect(await trailOf(rides, key)).toEqual(['ride_created', 'charge_created', 'finished'])
}

describe('a process killed by SIGKILL', () => {
  // demo.test.ts kills processes right after each commit.
  test.each([
    ['when it begins to create the ride', 'pawl:phase_started ride_created', 'started'],
    ['when it begins to charge', 'pawl:phase_started charge_created', 'ride_created'],
  ])('%s', async (_, crashAt, point) => {
    const api = await startApi({ crashAt })
    const key = newKey()
    expect(await statusOf(api, key)).toBe(null)
    expect(await api.ended).toBe('SIGKILL')
    expect(await pointOf(rides, key)).toBe(point)
    await expectTakenOver(key)
  })

  test('after the provider charged, before the charge was recorded', async () => {
    const api = await startApi()
    const key = newKey()
    const { answer } = await sendUntilCharged(api, key)
    await api.kill()
    expect(await answer).toBe(null)
    expect(await pointOf(rides, key)).toBe('ride_created')
    await expectTakenOver(key)
  })

  test('again and again, during each recovery', async () => {
    const key = newKey()
    const points = [
      'pawl:phase_committed ride_created',
      'pawl:taken_over',
      'pawl:phase_committed charge_created',
    ]
    // Side by side, since nothing reaches the later ones before their turn.
    const apis = await Promise.all(points.map((crashAt) => startApi({ crashAt })))
    for (const api of apis) {
      while ((await statusOf(api, key)) !== null);
      expect(await api.ended).toBe('SIGKILL')
    }
    await expectTakenOver(key)
  })
})

describe('of two servers', () => {
  test('one is killed with rides under way, and the other continues and finishes these as well', async () => {
    const api = await startApi()
    const [lost, own] = [keys(4), keys(4)]
    await rides.provoke(...lost.map(() => 'slow' as const))
    const charged = (await rides.ledger()).length + lost.length
    const broken = lost.map((key) => statusOf(api, key))
    await until('the charges', async () => (await rides.ledger()).length === charged)
    const answers = own.map((key) => statusOf(survivor, key))
    await api.kill()
    expect(await Promise.all(broken)).toEqual(lost.map(() => null))
    expect(await Promise.all(answers)).toEqual(own.map(() => 201))
    await Promise.all(lost.map((key) => expectTakenOver(key)))
  })

  test('both get the same key at once, and there is one ride', async () => {
    const api = await startApi()
    const key = newKey()
    const urls = [api.url, survivor.url, api.url, survivor.url]
    const all = await Promise.all(urls.map((url) => askUntilAnswered(() => url, key)))
    expect(new Set(all.map(({ answer }) => answer.body.toString())).size).toBe(1)
    await api.kill()
  })
})

describe('a frozen process that is overtaken and woken', () => {
  test('at ride_created', async () => {
    const api = await startApi({
      crashAt: 'pawl:phase_committed ride_created',
      crashSignal: 'SIGSTOP',
    })
    const key = newKey()
    const woken = statusOf(api, key)
    await until('the ride', async () => (await pointOf(rides, key)) === 'ride_created')
    await expectTakenOver(key)
    api.signal('SIGCONT')
    expect([201, 409]).toContain(await woken)
    await api.kill()
  })

  test('while the answer of the provider is on its way', async () => {
    const api = await startApi()
    const key = newKey()
    const { answer } = await sendUntilCharged(api, key)
    api.signal('SIGSTOP')
    await expectTakenOver(key)
    api.signal('SIGCONT')
    expect([201, 409]).toContain(await answer)
    await api.kill()
  })
})

describe('the payments provider', () => {
  test.each([
    ['does not answer, and has not charged', 'timeout_before', 0],
    ['does not answer, and has charged', 'timeout_after', 1],
    ['fails before it charges', 'error_before', 0],
  ] as const)('%s: a 503, and a retry charges once', async (_, fault, charges) => {
    const key = newKey()
    const before = (await rides.ledger()).length
    await rides.provoke(fault)
    expect(await statusOf(survivor, key)).toBe(503)
    expect(await rides.ledger()).toHaveLength(before + charges)
    expect(await pointOf(rides, key)).toBe('ride_created')
    await expectTakenOver(key)
    expect(await rides.ledger()).toHaveLength(before + 1)
  })

  test('repeats a failure that it has stored, so the answer stays a 503, and nothing is ever charged', async () => {
    const key = newKey()
    const before = await rides.ledger()
    await rides.provoke('stored_error')
    for (let attempt = 1; attempt <= 3; attempt++) expect(await statusOf(survivor, key)).toBe(503)
    expect(await pointOf(rides, key)).toBe('ride_created')
    expect(await rides.ledger()).toEqual(before)
  })
})

function keys(count: number): string[] {
  return Array.from({ length: count }, newKey)
}
