import { createHash, randomUUID } from 'node:crypto'
import {
  createBackground,
  createOperator,
  type JobToDeliver,
  type Outcome,
  type Protection,
} from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { columnsOf, watchWrites, type WrittenRow } from './dump.js'
import { createEngine, protect, SECRET, type SecretInput, secretRide } from './secret-ride.js'

const databases: TestDatabase[] = []
afterAll(() => Promise.all(databases.map((database) => database.drop())))

const because = { actor: 'anna', reason: 'a test' }

const of = ({ key }: { readonly key: string }) => ({ scope: 's', key })

/** Goes every way that writes a value, and returns all rows that were ever written. */
async function everyWay(
  protection?: Protection,
  create = (): Promise<TestDatabase> => TestDatabase.create(),
  commits: 'each' | 'fewest' = 'each',
): Promise<WrittenRow[]> {
  const database = await create()
  databases.push(database)
  const written = await watchWrites(database)
  const { schema } = database
  const given = protection === undefined ? {} : { protect: protection }
  const pool = database.pool()
  const engine = createEngine({ pool, schema, pipelines: [secretRide], defaults: { commits }, ...given })
  const operator = createOperator({ pool, schema, ...given })
  const send = async (
    way: SecretInput['way'],
    key: string = randomUUID(),
  ): Promise<Outcome & { key: string }> => {
    const outcome = await engine.execute(secretRide, { scope: 's', key, input: { way, secret: SECRET } })
    return { ...outcome, key }
  }
  const body = { secret: SECRET }

  // Answered, and replayed; the job's delivery fails, for good.
  const finished = await send('finishes')
  expect(finished).toMatchObject({ type: 'completed', response: { status: 201 } })
  const replayed = await send('finishes', finished.key)
  expect(replayed).toMatchObject({ type: 'replayed' })
  if (finished.type === 'completed' && replayed.type === 'replayed')
    expect(replayed.response).toEqual(finished.response)
  const seen: JobToDeliver[] = []
  const sink = {
    deliver: (jobs: readonly JobToDeliver[]) => {
      seen.push(...jobs)
      const error = new Error(`no room for ${SECRET}`)
      return Promise.resolve(jobs.map(() => ({ type: 'failed', error }) as const))
    },
  }
  const { relays, completer } = createBackground({ engine, reaper: false, relay: { sink, maxAttempts: 1 } })
  expect(await relays[0]?.runOnce()).toMatchObject({ claimed: 1, dead: 1 })
  expect(seen).toMatchObject([{ name: 'send', payload: { to: SECRET } }])
  expect(await operator.deadJobs()).toMatchObject([
    { payload: { to: SECRET }, lastError: expect.stringContaining(SECRET) as string, sealed: null },
  ])
  expect(await operator.requeue({ all: true }, because)).toBe(1)

  // The result of its call is kept, and taken over with it.
  const unsettled = await send('settle_fails')
  expect(unsettled).toMatchObject({ type: 'retry_later' })
  expect(await send('settle_fails', unsettled.key)).toMatchObject({ type: 'retry_later' })
  expect(await engine.inspect('s', unsettled.key)).toMatchObject({
    call: { known: 'returned', result: { found: SECRET } },
    lastError: expect.stringContaining(SECRET) as string,
  })

  // A person says what its call returned.
  const unknown = await send('unknown')
  expect(unknown).toMatchObject({ type: 'stuck', lastError: expect.stringContaining(SECRET) as string })
  expect(
    await operator.unstick(of(unknown), because, { type: 'executed', result: { found: SECRET } }),
  ).toMatchObject({ type: 'done', key: { call: { result: { found: SECRET } } } })

  // Its result is known when it gets stuck.
  const known = await send('settle_throws')
  // The grant that has made the call does not count.
  await send('settle_throws', known.key)
  expect(await send('settle_throws', known.key)).toMatchObject({ type: 'stuck' })

  // A person answers it.
  const answered = await send('fails')
  expect(await send('fails', answered.key)).toMatchObject({ type: 'stuck' })
  const headers = { 'x-secret': SECRET }
  expect(await operator.answer(of(answered), because, { status: 200, body, headers })).toMatchObject({
    type: 'done',
  })
  expect(await send('fails', answered.key)).toMatchObject({ type: 'replayed', response: { headers } })

  // A holder died without a word; its key is older than it may be when the next one comes.
  const old = await send('fails')
  await database.rows(
    `UPDATE pawl.idempotency_keys SET attempts = 9, run_after = NULL, last_error = NULL WHERE key = $1`,
    [old.key],
  )
  expect(await send('fails', old.key)).toMatchObject({ type: 'stuck' })

  // Nobody waits for it.
  await engine.enqueue(secretRide, {
    scope: 's',
    key: 'enqueued',
    input: { way: 'finishes', secret: SECRET },
  })
  expect((await completer?.runOnce())?.completed).toBeGreaterThan(0)
  await engine.enqueue(secretRide, { scope: 's', key: 'waiting', input: { way: 'finishes', secret: SECRET } })

  const shown = await operator.show(of(answered))
  expect(shown).toMatchObject({
    key: { input: { secret: SECRET }, sealed: null },
    interventions: [{ detail: { before: { lastError: expect.stringContaining(SECRET) as string } } }],
  })
  await engine.close()
  return written()
}

const divided = (): Promise<TestDatabase> => TestDatabase.createPartitioned(3)

/** Where the secret is when nothing is protected: what the test can see. */
const HOLDING = [
  'idempotency_keys.input',
  'idempotency_keys.intent',
  'idempotency_keys.last_error',
  'idempotency_keys.response_body',
  'idempotency_keys.response_headers',
  'idempotency_keys.state',
  'interventions.detail',
  'staged_jobs.last_error',
  'staged_jobs.payload',
]

/** Of what a person said that a call returned, and of what they answered. */
const DIGESTS = [{ found: SECRET }, { secret: SECRET }].map((value) =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex'),
)

describe('the tables', () => {
  test('hold what requests contain, unless it is protected', async () => {
    const rows = await everyWay()
    expect(columnsOf(rows, SECRET)).toEqual(HOLDING)
    for (const digest of DIGESTS) expect(columnsOf(rows, digest)).toEqual(['interventions.detail'])
  })

  // Shows I17.
  test('hold nothing of it in the clear where it is protected', async () => {
    const rows = await everyWay(protect)
    expect(columnsOf(rows, SECRET)).toEqual([])
    // Whoever can guess a value could check the guess.
    for (const digest of DIGESTS) expect(columnsOf(rows, digest)).toEqual([])
    const errors = rows.map(({ row }) => row['last_error'] ?? 'pawl:sealed:none')
    for (const error of errors) expect(error).toMatch(/^pawl:sealed:/)
  })

  test('hold nothing of it in the clear where phases share a transaction', async () => {
    expect(columnsOf(await everyWay(protect, undefined, 'fewest'), SECRET)).toEqual([])
  })

  test('hold nothing of it in the clear where they are divided by scope', async () => {
    expect(columnsOf(await everyWay(protect, divided), SECRET)).toEqual([])
  })

  test.each([
    ['input', ['idempotency_keys.input']],
    ['state', ['idempotency_keys.state']],
    ['intent', ['idempotency_keys.intent']],
    ['response_body', ['idempotency_keys.response_body']],
    ['last_error', ['idempotency_keys.last_error', 'interventions.detail', 'staged_jobs.last_error']],
    ['payload', ['staged_jobs.payload']],
  ])('give it away where %s is not sealed, so that this test would notice', async (forgotten, columns) => {
    const leaky: Protection = {
      seal: (plain, at) =>
        at.column === forgotten ? { keyId: 'k1', bytes: plain } : protect.seal(plain, at),
      open: (sealed, at) => (at.column === forgotten ? sealed.bytes : protect.open(sealed, at)),
      fingerprintSecret: (keyId) => protect.fingerprintSecret(keyId),
    }
    expect(columnsOf(await everyWay(leaky), SECRET)).toEqual(columns)
  })
})
