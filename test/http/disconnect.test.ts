import { once } from 'node:events'
import type { Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { heard } from '../support/heard.js'
import { listen, openSocket, rawRide, send } from '../support/http-client.js'
import { type RideApp, rideApp, surroundings } from '../support/ride-app.js'
import { gate } from '../support/signals.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

const body = { amount: 20 }

let rejections: unknown[]
const onRejection = (reason: unknown) => void rejections.push(reason)

beforeEach(() => {
  rejections = []
  process.on('unhandledRejection', onRejection)
})
afterEach(() => {
  process.off('unhandledRejection', onRejection)
  expect(rejections).toEqual([])
})

/** A connection, with what the server notices of it: its first bytes, and its end. */
async function connect(app: RideApp['app'], url: string) {
  const accepted = once(app.server, 'connection')
  const client = await openSocket(url)
  const [connection] = (await accepted) as [Socket]
  const read = new Promise((resolve) => connection.once('data', resolve))
  const noticed = new Promise((resolve) => connection.once('close', resolve))
  return { client, read, noticed }
}

const troubles = ({ log }: RideApp) => log.filter(({ level }) => Number(level) > 30)

test('a client that goes away in the middle of a phase does not stop it, and gets the response later', async () => {
  const ride = await rideApp()
  const { app, database, provider } = ride
  const url = await listen(app)
  const { client, noticed } = await connect(app, url)
  await provider.willMeet('hold_then_execute')
  client.write(rawRide(20))
  await provider.arrived()
  client.destroy()
  await noticed
  const finished = heard('pawl:finished')
  await provider.letGo()
  await finished
  const retry = await send(url, { body })
  expect(retry.status).toBe(201)
  expect(retry.headers['idempotency-replayed']).toBe('true')
  await expectOneWholeRide(database, provider)
  expect(troubles(ride)).toEqual([])
})

test('a client that goes away in the middle of its body leaves nothing behind', async () => {
  const ride = await rideApp()
  const { app, database, provider } = ride
  const url = await listen(app)
  const { client, noticed } = await connect(app, url)
  const handled = once(app.server, 'request')
  client.write(rawRide(20).slice(0, -3))
  await handled
  client.destroy()
  await noticed
  expect(await database.rows('SELECT * FROM pawl.idempotency_keys')).toEqual([])
  expect((await send(url, { body })).status).toBe(201)
  await expectOneWholeRide(database, provider)
})

/** An app that signals when it has begun to close: its engine takes no more work by then. */
async function closingApp(options: Parameters<typeof rideApp>[0] = {}) {
  const closing = gate()
  const ride = await rideApp({
    ...options,
    routes: async (app, engine) => {
      await options.routes?.(app, engine)
      app.addHook('preClose', async () => closing.open())
    },
  })
  return { ...ride, url: await listen(ride.app), closing: closing.opened }
}

describe('while the app closes', () => {
  test('a request that finishes in time is answered', async () => {
    const { app, url, closing, database, provider } = await closingApp()
    await provider.willMeet('hold_then_execute')
    const running = send(url, { body })
    await provider.arrived()
    const closed = app.close()
    await closing
    await provider.letGo()
    expect((await running).status).toBe(201)
    await closed
    await expectOneWholeRide(database, provider)
  })

  test('a request that does not finish in time is given back, and another app goes on with it', async () => {
    const beside = await surroundings()
    const { database, provider } = beside
    const { app, url } = await closingApp({ beside, plugin: { closeTimeoutMs: 1 } })
    await provider.willMeet('executes_then_silent')
    const running = send(url, { body })
    await provider.arrived()
    await app.close()
    const interrupted = await running
    expect(interrupted.status).toBe(503)
    expect(interrupted.headers['retry-after']).toBe('1')
    expect(JSON.parse(interrupted.body.toString())).toMatchObject({ code: 'temporarily_unavailable' })
    const rows = await database.rows('SELECT status, recovery_point, lease_until FROM pawl.idempotency_keys')
    expect(rows).toEqual([{ status: 'running', recovery_point: 'ride_created', lease_until: null }])

    const next = await rideApp({ beside })
    const retry = await send(await listen(next.app), { body })
    expect(retry.status).toBe(201)
    expect(retry.headers['idempotency-replayed']).toBeUndefined()
    await expectOneWholeRide(database, provider)
  })

  test('a request that comes on an open connection is told to go elsewhere', async () => {
    const { app, url, closing, database, provider } = await closingApp()
    await provider.willMeet('hold_then_execute')
    const running = send(url, { body })
    await provider.arrived()
    const { client, read } = await connect(app, url)
    const text = rawRide(20, 'k2')
    // With half a request sent, the connection is not idle, so it is not closed with the others.
    const half = text.indexOf('content-type')
    client.write(text.slice(0, half))
    await read
    const closed = app.close()
    await closing
    client.write(text.slice(half))
    const [answer] = (await once(client, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 503 /)
    await provider.letGo()
    expect((await running).status).toBe(201)
    await closed
    expect(await database.rows('SELECT key FROM pawl.idempotency_keys')).toEqual([{ key: 'k1' }])
  })

  test('a request that is still in a hook is told to come back, and nothing of it is stored', async () => {
    const [entered, leave] = [gate(), gate()]
    const { app, url, closing, database } = await closingApp({
      before: (server) => {
        server.addHook('preHandler', async () => {
          entered.open()
          await leave.opened
        })
      },
    })
    const running = send(url, { body })
    await entered.opened
    const closed = app.close()
    await closing
    leave.open()
    const refused = await running
    expect(refused.status).toBe(503)
    expect(refused.headers['retry-after']).toBe('1')
    expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 'store_unavailable' })
    await closed
    expect(await database.rows('SELECT key FROM pawl.idempotency_keys')).toEqual([])
  })

  test('a duplicate that waits is told to come back', async () => {
    const beside = await surroundings()
    const { provider } = beside
    const waitMs = 120_000
    const { app, url, closing } = await closingApp({ beside, route: { onConflict: { waitMs } } })
    await provider.willMeet('hold_then_execute')
    const running = send(url, { body })
    await provider.arrived()
    const inVain = heard('pawl:in_flight')
    const waiting = send(url, { body })
    await inVain
    const closed = app.close()
    await closing
    const told = await waiting
    expect(told.status).toBe(503)
    expect(told.headers['retry-after']).toBe('1')
    await provider.letGo()
    expect((await running).status).toBe(201)
    await closed
  })
})
