import { respond } from '@pawl/core'
import { expect, test, vi } from 'vitest'
import { heard } from '../support/heard.js'
import { listen, send } from '../support/http-client.js'
import { rideApp, surroundings } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'

// No duplicate asks again by itself within the time of a test: only the news can end a wait here.
vi.mock(import('../../packages/fastify-adapter/src/limits.js'), async (original) => ({
  ...(await original()),
  FIRST_POLL_MS: 300_000 as 50,
  MAX_POLL_MS: 300_000 as 500,
}))

const body = { amount: 20 }
const route = { onConflict: { waitMs: 600_000 } }

/** A request that is held at the provider, and its duplicate, which has asked once and waits. */
async function firstAndDuplicate() {
  const { app, provider } = await rideApp({ route })
  const url = await listen(app)
  await provider.willMeet('hold_then_execute')
  const inFlight = hear('pawl:in_flight')
  const inVain = heard('pawl:in_flight')
  const answers = [send(url, { body }), send(url, { body })]
  await Promise.all([provider.arrived(), inVain])
  return { url, provider, inFlight, answers }
}

test('a duplicate hears at once that the first has finished in this process', async () => {
  const { provider, inFlight, answers } = await firstAndDuplicate()
  await provider.letGo()
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([201, 201])
  expect(inFlight).toHaveLength(1)
  expect(await provider.ledger()).toHaveLength(1)
})

test('a duplicate hears at once that the first has failed, and goes on from there', async () => {
  const [called, fail] = [gate(), gate()]
  let calls = 0
  const flaky = pipeline<null>({ name: 'flaky', version: 1 })
    .foreign('called', {
      call: async () => {
        if (++calls > 1) return null
        called.open()
        await fail.opened
        throw new Error('the first call fails')
      },
    })
    .finish(() => respond(201))
  const beside = await surroundings()
  const { app } = await rideApp({
    beside,
    // The failure is announced just before the key is given back. With one connection, whoever asks then comes after that.
    engine: { pool: beside.database.pool({ max: 1 }) },
    pipelines: [flaky],
    routes: (server) => {
      server.post('/flaky', { idempotency: route }, (request) => request.pawl.run(flaky, null))
    },
  })
  const url = await listen(app)
  const first = send(url, { path: '/flaky' })
  await called.opened
  const inFlight = hear('pawl:in_flight')
  const inVain = heard('pawl:in_flight')
  const second = send(url, { path: '/flaky' })
  await inVain
  fail.open()
  expect((await first).status).toBe(500)
  expect((await second).status).toBe(201)
  expect(inFlight).toHaveLength(1)
  expect(calls).toBe(2)
})

test('a duplicate hears nothing of other keys', async () => {
  const { url, provider, inFlight, answers } = await firstAndDuplicate()
  const other = await send(url, { body, headers: { 'idempotency-key': 'k2' } })
  expect(other.status).toBe(201)
  await provider.letGo()
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([201, 201])
  expect(inFlight).toHaveLength(1)
})
