import { channel } from 'node:diagnostics_channel'
import { type PawlChannel, respond } from '@pawl/core'
import pg from 'pg'
import { expect, test, vi } from 'vitest'
import { engineThatDiesAt } from '../support/crash.js'
import { heard } from '../support/heard.js'
import { listen, type Received, send } from '../support/http-client.js'
import { rideApp, surroundings } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

const DUPLICATES = 50
/** Longer than the test may take: a client that waits this long has missed what it waited for. */
const FOR_EVER_MS = 120_000
/** For events that have no signal; far longer than they take. */
const PATIENCE = { timeout: 20_000, interval: 5 }
/** What a waiting room listens to. */
const NEWS: PawlChannel[] = ['pawl:finished', 'pawl:phase_failed', 'pawl:stuck', 'pawl:fenced_off']

const body = { amount: 20 }
const sendMany = (url: string, count: number) => Array.from({ length: count }, () => send(url, { body }))
const statusesOf = (answers: readonly Received[]) =>
  answers.map(({ status }) => status).toSorted((a, b) => a - b)

const listenedTo = () => NEWS.filter((name) => channel(name).hasSubscribers)

test('of many duplicates at once one is processed, and the others are told to come back', async () => {
  const { app, database, provider } = await rideApp()
  const url = await listen(app)
  await provider.willMeet('hold_then_execute')
  const answers: Received[] = []
  const others = gate()
  const all = sendMany(url, DUPLICATES).map(async (answer) => {
    if (answers.push(await answer) === DUPLICATES - 1) others.open()
  })
  await Promise.all([provider.arrived(), others.opened])
  expect(new Set(statusesOf(answers))).toEqual(new Set([409]))
  expect(new Set(answers.map(({ headers }) => headers['retry-after']))).toEqual(new Set(['1']))
  await provider.letGo()
  await Promise.all(all)
  expect(answers.at(-1)?.status).toBe(201)
  await expectOneWholeRide(database, provider)
})

test('of many duplicates at once, those that arrive after the first has finished get its response', async () => {
  const { app, database, provider } = await rideApp()
  const answers = await Promise.all(sendMany(await listen(app), DUPLICATES))
  const created = answers.filter(({ status }) => status === 201)
  const firsts = created.filter(({ headers }) => headers['idempotency-replayed'] === undefined)
  expect(firsts).toHaveLength(1)
  for (const { body: bytes } of created) expect(bytes).toEqual(firsts[0]?.body)
  expect(answers.filter(({ status }) => status !== 201 && status !== 409)).toEqual([])
  await expectOneWholeRide(database, provider)
})

test('duplicates that wait all get the response of the first, and hold no connection meanwhile', async () => {
  const inVain = heard('pawl:in_flight', DUPLICATES - 1)
  const beside = await surroundings()
  const { database, provider } = beside
  const pool = database.pool({ max: 1 })
  const { app } = await rideApp({ beside, engine: { pool }, route: { onConflict: { waitMs: FOR_EVER_MS } } })
  const url = await listen(app)
  await provider.willMeet('hold_then_execute')
  const waiting = sendMany(url, DUPLICATES)
  await Promise.all([provider.arrived(), inVain])
  // They ask again now and then. In between, the only connection is free.
  await vi.waitFor(() => expect(pool.totalCount - pool.idleCount).toBe(0), PATIENCE)
  const other = await send(url, { body, headers: { 'idempotency-key': 'k2' } })
  expect(other.status).toBe(201)
  await provider.letGo()
  const answers = await Promise.all(waiting)
  expect(new Set(statusesOf(answers))).toEqual(new Set([201]))
  expect(new Set(answers.map(({ body: bytes }) => bytes.toString())).size).toBe(1)
  const replays = answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true')
  expect(replays).toHaveLength(DUPLICATES - 1)
  expect(await provider.ledger()).toHaveLength(2)
})

test('a duplicate that waits subscribes to news, and nobody is subscribed once nobody waits', async () => {
  const { app, provider } = await rideApp({ route: { onConflict: { waitMs: FOR_EVER_MS } } })
  const url = await listen(app)
  expect(listenedTo()).toEqual([])
  await provider.willMeet('hold_then_execute')
  const waiting = sendMany(url, 3)
  await provider.arrived()
  await vi.waitFor(() => expect(listenedTo()).toEqual(NEWS), PATIENCE)
  await provider.letGo()
  await Promise.all(waiting)
  expect(listenedTo()).toEqual([])
})

test('a duplicate that has waited as long as the route allows is told to come back', async () => {
  const { app, provider } = await rideApp({ route: { onConflict: { waitMs: 100 } } })
  const url = await listen(app)
  await provider.willMeet('hold_then_execute')
  const first = send(url, { body })
  await provider.arrived()
  const before = performance.now()
  const second = await send(url, { body })
  // A timer may fire a millisecond early.
  expect(performance.now() - before).toBeGreaterThanOrEqual(99)
  expect(second.status).toBe(409)
  expect(second.headers['retry-after']).toBe('1')
  expect(JSON.parse(second.body.toString())).toMatchObject({ code: 'request_in_progress' })
  expect(listenedTo()).toEqual([])
  await provider.letGo()
  expect((await first).status).toBe(201)
})

test('a duplicate that waits for a process that died takes over when its lease has run out', async () => {
  const beside = await surroundings()
  const { database, provider } = beside
  // This is not one of the database's pools: its clients are never given back, so it could not be ended.
  const pool = new pg.Pool({
    connectionString: database.url,
    options: `-c search_path=${database.businessSchema}`,
  })
  const dying = gate()
  const doomed = await rideApp({
    beside,
    engine: { pool },
    plugin: { closeTimeoutMs: 0 },
    engineOf: (options) => {
      const { engine, died } = engineThatDiesAt(options, 'charge_created/call#1:after')
      void died.then(dying.open)
      return engine
    },
  })
  const client = new AbortController()
  const lost = send(await listen(doomed.app), { body, signal: client.signal })
  await dying.opened
  client.abort()
  await expect(lost).rejects.toThrow('aborted')

  const { app } = await rideApp({ beside, route: { onConflict: { waitMs: FOR_EVER_MS } } })
  const inVain = heard('pawl:in_flight')
  const waiting = send(await listen(app), { body })
  await inVain
  await database.expireLeases()
  const answer = await waiting
  expect(answer.status).toBe(201)
  expect(answer.headers['idempotency-replayed']).toBeUndefined()
  await expectOneWholeRide(database, provider)
})

test('a duplicate asks again now and then, because the first may finish in a process that sends no news', async () => {
  const beside = await surroundings()
  const stalled = gate()
  const leave = gate()
  const elsewhere = await rideApp({
    beside,
    // It is committed, and not announced yet. That is how the work of another process looks from here.
    engineOf: (options) => {
      const { engine, stops } = engineWithStops(options, 'finished/commit#1:after')
      void stops[0].reached.then(stalled.open)
      void leave.opened.then(stops[0].go)
      return engine
    },
  })
  const { app } = await rideApp({ beside, route: { onConflict: { waitMs: FOR_EVER_MS } } })
  await beside.provider.willMeet('hold_then_execute')
  const first = send(await listen(elsewhere.app), { body })
  await beside.provider.arrived()
  const inVain = heard('pawl:in_flight')
  const waiting = send(await listen(app), { body })
  await inVain
  await beside.provider.letGo()
  await stalled.opened
  const answer = await waiting
  leave.open()
  expect(answer.status).toBe(201)
  expect(answer.headers['idempotency-replayed']).toBe('true')
  expect(answer.body).toEqual((await first).body)
  await expectOneWholeRide(beside.database, beside.provider)
})

test('a duplicate whose client goes away stops waiting, and the first goes on', async () => {
  const [entered, leave, ended] = [gate(), gate(), gate()]
  const held = pipeline<null>({ name: 'held', version: 1 })
    .foreign('held', {
      call: async () => {
        entered.open()
        await leave.opened
        return null
      },
    })
    .finish(() => respond(200, { done: true }))
  const { app, log } = await rideApp({
    pipelines: [held],
    routes: (server) => {
      server.post('/held', { idempotency: { onConflict: { waitMs: FOR_EVER_MS } } }, (request) =>
        request.pawl.run(held, null).finally(ended.open),
      )
    },
  })
  const url = await listen(app)
  const first = send(url, { path: '/held' })
  await entered.opened
  const inVain = heard('pawl:in_flight')
  const client = new AbortController()
  const second = send(url, { path: '/held', signal: client.signal })
  await inVain
  client.abort()
  await expect(second).rejects.toThrow('aborted')
  // The first is still held, so it is the second that ends.
  await ended.opened
  expect(listenedTo()).toEqual([])
  leave.open()
  expect((await first).status).toBe(200)
  expect(log.filter(({ level }) => Number(level) > 30)).toEqual([])
})
