import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { PREFER } from '../support/async-app.js'
import { lasting, listen, send } from '../support/http-client.js'
import { type RideApp, rideApp } from '../support/ride-app.js'
import { expectOneWholeRide } from '../support/whole-ride.js'
import { firstUnlessDeep } from '../support/amounts.js'

const WORKER = fileURLToPath(new URL('../fixtures/ride-worker.mjs', import.meta.url))

/** Runs a worker until it ends, and returns the signal that killed it once the server has noticed as well. */
async function runWorker({ database, provider }: RideApp, at: string): Promise<string | null> {
  const { url, schema, businessSchema } = database
  const applicationName = `worker_${randomUUID()}`
  const { account, url: providerUrl } = provider
  const told = { url, schema, businessSchema, applicationName, account, providerUrl, at }
  const worker = fork(WORKER, [JSON.stringify(told)])
  const [, signal] = (await once(worker, 'close')) as [number | null, string | null]
  await database.backendsGone(applicationName)
  return signal
}

const KILLS = [
  ['after the charge, before it is recorded', 'charge_created/begin:before', 1],
  ['before the first phase commits', 'ride_created/commit:before', 0],
  ['before the charge', 'charge_created/call:before', 0],
  ['before the response is stored', 'finished/commit:before', 1],
] as const

test.each(firstUnlessDeep(1, KILLS))(
  'if a worker is killed %s, another finishes the request, and the status has the response',
  async (_when, at, charges) => {
    const served = await rideApp({ plugin: { respondAsync: true } })
    const { app, database, provider } = served
    const url = await listen(app)
    const accepted = await send(url, { body: { amount: 20 }, headers: PREFER })
    expect(accepted.status).toBe(202)
    const { location: path = '' } = accepted.headers

    expect(await runWorker(served, at)).toBe('SIGKILL')
    expect(await provider.ledger()).toHaveLength(charges)
    const running = await send(url, { method: 'GET', path })
    expect(running.status).toBe(202)
    expect(lasting(running)).toMatchObject({ body: accepted.body.toString('latin1') })

    await database.expireLeases()
    expect(await runWorker(served, 'nowhere')).toBeNull()
    const status = await send(url, { method: 'GET', path })
    expect(status.status).toBe(201)
    const replay = await send(url, { body: { amount: 20 }, headers: PREFER })
    expect(replay.headers['idempotency-replayed']).toBe('true')
    expect(status.body).toEqual(replay.body)
    await expectOneWholeRide(database, provider)
  },
)
