import { expect, test, vi } from 'vitest'
import { ask, idleCompleter, sendAsync } from '../support/async-app.js'
import { heard } from '../support/heard.js'
import { listen, send as sendOnSocket } from '../support/http-client.js'
import { keyRows, send } from '../support/http-requests.js'
import { rideApp } from '../support/ride-app.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

// No client asks again by itself within the time of a test: only the news or the bound can end a wait here.
vi.mock(import('../../packages/fastify-adapter/src/limits.js'), async (original) => ({
  ...(await original()),
  FIRST_POLL_MS: 300_000 as 50,
  MAX_POLL_MS: 300_000 as 500,
}))

const WAIT = { prefer: 'respond-async, wait=600' }
const patient = { plugin: { respondAsync: { maxWaitMs: 600_000 } } }

test('a client that waits for a while gets the response as soon as there is one, and not as a replay', async () => {
  const { app, engine, database, provider } = await rideApp(patient)
  await idleCompleter(engine)
  await provider.willMeet('hold_then_execute')
  const held = send(app, { headers: WAIT })
  await provider.arrived()
  expect((await sendAsync(app)).statusCode).toBe(202)
  await provider.letGo()
  const first = await held
  expect(first.statusCode).toBe(201)
  expect(first.headers['idempotency-replayed']).toBeUndefined()
  expect(first.headers['idempotency-expires']).toEqual(expect.any(String))
  expect(first.headers['preference-applied']).toBeUndefined()
  const replay = await send(app, { headers: WAIT })
  expect(replay.statusCode).toBe(201)
  expect(replay.headers['idempotency-replayed']).toBe('true')
  expect(replay.rawPayload).toEqual(first.rawPayload)
  await expectOneWholeRide(database, provider)
})

test.each([1, 0])('a client waits no longer than the bound of %i ms', async (maxWaitMs) => {
  const { app, database } = await rideApp({ plugin: { respondAsync: { maxWaitMs } } })
  const accepted = await send(app, { headers: WAIT })
  expect(accepted.statusCode).toBe(202)
  expect(accepted.headers['preference-applied']).toBe('respond-async')
  expect((await ask(app, accepted)).statusCode).toBe(202)
  expect(await keyRows(database)).toHaveLength(1)
})

test('without a wait preference the client does not wait, even on a route where duplicates do', async () => {
  const { app } = await rideApp({ ...patient, route: { onConflict: { waitMs: 600_000 } } })
  expect((await sendAsync(app)).statusCode).toBe(202)
  expect((await sendAsync(app)).statusCode).toBe(202)
})

test('a wait preference alone does not ask for an early answer', async () => {
  const { app } = await rideApp(patient)
  expect((await send(app, { headers: { prefer: 'wait=600' } })).statusCode).toBe(201)
})

test('on a route that always answers early, a wait preference alone is heeded', async () => {
  const { app, engine, provider } = await rideApp({ ...patient, route: { respondAsync: 'always' } })
  await idleCompleter(engine)
  await provider.willMeet('hold_then_execute')
  const held = send(app, { headers: { prefer: 'wait=600' } })
  await provider.arrived()
  await provider.letGo()
  expect((await held).statusCode).toBe(201)
})

test('a client that goes away while it waits changes nothing', async () => {
  const { app, engine, database, provider } = await rideApp(patient)
  await idleCompleter(engine)
  await provider.willMeet('hold_then_execute')
  const url = await listen(app)
  const leave = new AbortController()
  const [body, finished] = [{ amount: 20 }, heard('pawl:finished')]
  const held = sendOnSocket(url, { body, headers: WAIT, signal: leave.signal })
  await provider.arrived()
  leave.abort()
  await expect(held).rejects.toThrow(/abort/)
  await provider.letGo()
  await finished
  expect((await send(app)).statusCode).toBe(201)
  await expectOneWholeRide(database, provider)
})
