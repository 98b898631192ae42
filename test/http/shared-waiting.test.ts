import { type EngineOptions, respond } from '@pawl/core'
import { createProbedEngine, executeFound, lookAtKey } from '@pawl/core/internal'
import { expect, test, vi } from 'vitest'
import { idleCompleter } from '../support/async-app.js'
import { heard } from '../support/heard.js'
import { listen, type Received, send, type ToSend } from '../support/http-client.js'
import { rideApp, type RideAppOptions } from '../support/ride-app.js'
import { type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

// No duplicate asks again by itself within the time of a test: only the news can end a wait here, so statements can be counted.
vi.mock(import('../../packages/fastify-adapter/src/limits.js'), async (original) => ({
  ...(await original()),
  FIRST_POLL_MS: 300_000 as 50,
  MAX_POLL_MS: 300_000 as 500,
}))

/** For events that have no signal; far longer than they take. */
const PATIENCE = { timeout: 20_000, interval: 5 }
const body = { amount: 20 }
const WAITS = { onConflict: { waitMs: 600_000 } }
const PREFERS = { prefer: 'respond-async, wait=600' }

/** Counts what the engine's reservations send. */
function counting() {
  const sent: string[] = []
  const engineOf = (options: EngineOptions<Database>) =>
    createProbedEngine<Database>(options, ({ phase, step, when }) => {
      if (phase === 'reserve' && when === 'before') sent.push(step)
    })
  return { sent, engineOf }
}

/** A first request that is held at the provider, and so many duplicates, all of which wait. */
async function held(duplicates: number, options: RideAppOptions = {}, toSend: ToSend = {}) {
  const { sent, engineOf } = counting()
  const of = await rideApp({ route: WAITS, engineOf, ...options })
  const url = await listen(of.app)
  await of.provider.willMeet('hold_then_execute')
  const first = send(url, { body, ...toSend })
  await of.provider.arrived()
  const inVain = heard('pawl:in_flight', duplicates)
  const waiting = Array.from({ length: duplicates }, () => send(url, { body, ...toSend }))
  if (duplicates > 0) await inVain
  return { ...of, url, first, waiting, sent }
}

const told = (amount: number) => respond(201, { amount })
const statusesOf = (answers: readonly Received[]) => new Set(answers.map(({ status }) => status))

test.each([1, 60])('%i duplicates that wait cost one question and one read', async (duplicates) => {
  const replayed = hear('pawl:replayed')
  const { first, waiting, sent, provider, database } = await held(duplicates)
  sent.length = 0
  await provider.letGo()
  const answers = await Promise.all([first, ...waiting])
  expect(statusesOf(answers)).toEqual(new Set([201]))
  expect(new Set(answers.map(({ body: bytes }) => bytes.toString())).size).toBe(1)
  expect(answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true')).toHaveLength(duplicates)
  expect(sent).toEqual(['find_progress', 'find_key'])
  expect(replayed).toHaveLength(duplicates)
  await expectOneWholeRide(database, provider)
})

test.each([1, 60])('so do %i clients that wait for what was enqueued', async (clients) => {
  const { sent, engineOf } = counting()
  const { app, engine, provider, database } = await rideApp({
    engineOf,
    plugin: { respondAsync: { maxWaitMs: 600_000 } },
  })
  await idleCompleter(engine)
  const url = await listen(app)
  await provider.willMeet('hold_then_execute')
  const first = send(url, { body, headers: PREFERS })
  await provider.arrived()
  const others = Array.from({ length: clients }, () => send(url, { body, headers: PREFERS }))
  // Each has looked for the key, and waits: a request that does not wait comes after them.
  await vi.waitFor(
    () => expect(sent.filter((step) => step === 'find_key').length).toBeGreaterThanOrEqual(clients),
    PATIENCE,
  )
  expect((await send(url, { body, headers: { prefer: 'respond-async' } })).status).toBe(202)
  sent.length = 0
  await provider.letGo()
  expect(statusesOf(await Promise.all([first, ...others]))).toEqual(new Set([201]))
  expect(sent).toEqual(['find_progress', 'find_key'])
  await expectOneWholeRide(database, provider)
})

test('a key that is given up wakes one of those who wait, and the others get the response of that one', async () => {
  const { waiting, first, sent, provider, database } = await held(40, { engine: { leaseMs: 60_000 } })
  // As after a crash, for which the lease need not be waited for: the provider's answer comes when another has the key.
  sent.length = 0
  await database.rows(
    `UPDATE pawl.idempotency_keys SET fence = fence + 1, holder = gen_random_uuid(), revision = revision + 1, lease_until = NULL`,
  )
  await provider.letGo()
  const answers = await Promise.all(waiting)
  expect(statusesOf(answers)).toEqual(new Set([201]))
  expect(new Set(answers.map(({ body: bytes }) => bytes.toString())).size).toBe(1)
  expect(answers.filter(({ headers }) => headers['idempotency-replayed'] === undefined).length).toBeLessThan(
    2,
  )
  expect(sent.filter((step) => step === 'take_over_key')).toHaveLength(1)
  expect(sent.length).toBeLessThan(12)
  await first
  await expectOneWholeRide(database, provider)
})

test('one that waits gets nothing of another request that has taken its key meanwhile', async () => {
  const { app, url, first, waiting, database } = await held(3, { plugin: { closeTimeoutMs: 0 } })
  // Its row is deleted, as after its expiry, and somebody uses the key for something else.
  await database.rows('DELETE FROM pawl.idempotency_keys')
  const other = await send(url, { body: { amount: 99 } })
  expect(other.status).toBe(201)
  const answers = await Promise.all(waiting)
  expect(statusesOf(answers)).toEqual(new Set([422]))
  for (const { body: bytes } of answers)
    expect(JSON.parse(bytes.toString())).toMatchObject({ code: 'idempotency_key_reused' })
  await app.close()
  expect((await first).status).not.toBe(201)
})

test('a key that was found answers nobody but its own scope, key, request and pipeline', async () => {
  const one = pipeline<{ amount: number }>({ name: 'one', version: 1 }).finish(({ input }) =>
    told(input.amount),
  )
  const two = pipeline<{ amount: number }>({ name: 'two', version: 1 }).finish(({ input }) =>
    told(input.amount),
  )
  const { engine } = await rideApp({ pipelines: [one, two] })
  const request = { scope: 'ann', key: 'k1', input: { amount: 1 } }
  await engine.execute(one, request)
  const look = await lookAtKey(engine, 'ann', 'k1')
  if (look.type !== 'answered') throw new Error(`it is ${look.type}`)
  const execute = (of: typeof one, more: object) =>
    executeFound(engine, of, { ...request, ...more }, look.row)
  expect(await execute(one, {})).toMatchObject({ type: 'replayed' })
  expect(await execute(one, { input: { amount: 2 } })).toEqual({ type: 'mismatch', differs: 'request' })
  expect(await execute(two, {})).toEqual({ type: 'mismatch', differs: 'pipeline' })
  // These are other keys, which are free.
  expect(await execute(one, { scope: 'bob' })).toMatchObject({ type: 'completed' })
  expect(await execute(one, { key: 'k2' })).toMatchObject({ type: 'completed' })
  expect(await lookAtKey(engine, 'eve', 'k1')).toEqual({ type: 'gone' })
})

test('no more of a scope wait than may, and others still do', async () => {
  const { url, first, waiting, provider } = await held(2, { plugin: { waitersPerScope: 2 } })
  const refused = await send(url, { body })
  expect(refused.status).toBe(409)
  expect(refused.headers['retry-after']).toBe('1')
  await provider.willMeet('hold_then_execute')
  const ofBob = { body, headers: { authorization: 'Bearer bob' } }
  const firstOfBob = send(url, ofBob)
  await provider.arrived(2)
  const inVain = heard('pawl:in_flight')
  const secondOfBob = send(url, ofBob)
  await inVain
  await provider.letGo()
  await provider.letGo()
  expect(statusesOf(await Promise.all([first, ...waiting, firstOfBob, secondOfBob]))).toEqual(new Set([201]))
})

test('a client that goes away leaves its place to the next', async () => {
  const { url, first, provider, log } = await held(0, { plugin: { waitersPerScope: 1 } })
  const client = new AbortController()
  const inVain = heard('pawl:in_flight')
  const gone = send(url, { body, signal: client.signal })
  await inVain
  expect((await send(url, { body })).status).toBe(409)
  client.abort()
  await expect(gone).rejects.toThrow(/abort/)
  const logged = () => log.filter(({ idempotency }) => idempotency !== undefined)
  await vi.waitFor(() => expect(logged()).toHaveLength(2), PATIENCE)
  const again = heard('pawl:in_flight')
  const next = send(url, { body })
  await again
  await provider.letGo()
  expect(statusesOf(await Promise.all([first, next]))).toEqual(new Set([201]))
})

test('when the app closes, those who wait are told at once to come back', async () => {
  const { app, waiting, first, sent, provider } = await held(20)
  sent.length = 0
  const closed = app.close()
  const answers = await Promise.all(waiting)
  expect(statusesOf(answers)).toEqual(new Set([503]))
  expect(sent).toEqual([])
  await provider.letGo()
  expect((await first).status).toBe(201)
  await closed
})

test('with no places, nobody waits', async () => {
  const { url, first, provider } = await held(0, { plugin: { waitersPerScope: 0 } })
  expect((await send(url, { body })).status).toBe(409)
  await provider.letGo()
  expect((await first).status).toBe(201)
})
