import { aesGcm } from '@pawl/core'
import type { FastifyPawlOptions } from '@pawl/fastify'
import type { FastifyRequest, InjectOptions, LightMyRequestResponse } from 'fastify'
import { describe, expect, test } from 'vitest'
import { ask, sendAsync } from '../support/async-app.js'
import { keyRows, send } from '../support/http-requests.js'
import { type RideApp, rideApp, type RideAppOptions } from '../support/ride-app.js'
import { createEngine } from '../support/rides.js'

const protect = aesGcm({ keys: { k1: Buffer.alloc(32, 1) } })
const bindTo = ({ headers }: FastifyRequest) => headers['x-session'] as string | undefined

const boundApp = (more: Partial<FastifyPawlOptions> = {}, options: RideAppOptions = {}): Promise<RideApp> =>
  rideApp({
    ...options,
    plugin: { bindTo, respondAsync: true, ...more },
    engineOf: (given) => createEngine({ ...given, protect }),
  })

const as = (session: string, more: InjectOptions = {}): InjectOptions => ({
  ...more,
  headers: { 'x-session': session },
})

/** Everything that a client sees, except for the time. */
function seen({ statusCode, headers, payload }: LightMyRequestResponse): unknown {
  const { date: _date, ...others } = headers
  return { statusCode, headers: others, payload }
}

/** What the log says of the last request, without what differs between any two. */
function lastLogged({ log }: RideApp): unknown {
  const line = log.findLast(({ outcome }) => outcome !== undefined) ?? {}
  const { time: _time, reqId: _id, ...others } = line
  return others
}

test('another session under the same key sees what another request sees, finished or not', async () => {
  const trial = await boundApp()
  const { app, database, provider } = trial
  const ride = () => send(app, as('one'))
  await provider.willMeet('hold_then_execute')
  const first = ride()
  await provider.arrived()
  const check = async (): Promise<void> => {
    const rows = await keyRows(database)
    const another = await send(app, as('one', { payload: { amount: 21 } }))
    const logged = lastLogged(trial)
    expect(another.statusCode).toBe(422)
    for (const session of ['two', 'one ']) {
      expect(seen(await send(app, as(session)))).toEqual(seen(another))
      expect(lastLogged(trial)).toEqual(logged)
    }
    expect(await keyRows(database)).toEqual(rows)
  }
  await check()
  await provider.letGo()
  expect((await first).statusCode).toBe(201)
  await check()
  const again = await ride()
  expect(again.headers).toHaveProperty('idempotency-replayed')
  expect(again.rawPayload).toEqual((await first).rawPayload)
  expect(await provider.ledger()).toHaveLength(1)
})

test('another session finds no status', async () => {
  const { app } = await boundApp()
  const accepted = await sendAsync(app, as('one'))
  expect((await ask(app, accepted, as('one'))).statusCode).toBe(202)
  const none = await ask(app, accepted, as('one', { url: '/rides/idempotent-requests/none' }))
  expect(none.statusCode).toBe(404)
  expect(seen(await ask(app, accepted, as('two')))).toEqual(seen(none))
})

test('a process without the key says that it is not available, and not that there is no such request', async () => {
  const { app, engine, database, provider } = await boundApp()
  const accepted = await sendAsync(app, as('one'))
  const { keyId = '' } = (await engine.inspect('ann', 'k1')) ?? {}
  await engine.resume(keyId)
  const other = await rideApp({
    beside: { database, provider },
    plugin: { bindTo, respondAsync: true },
    engineOf: (given) => createEngine({ ...given, protect: aesGcm({ keys: { k2: Buffer.alloc(32, 2) } }) }),
  })
  const [retry, status] = [await send(other.app, as('one')), await ask(other.app, accepted, as('one'))]
  expect([retry.statusCode, status.statusCode]).toEqual([503, 503])
  expect(retry.headers).toHaveProperty('retry-after')
  const idempotency = expect.objectContaining({
    detail: expect.stringContaining("key 'k1'") as string,
  }) as object
  expect(other.log).toContainEqual(expect.objectContaining({ level: 50, idempotency }))
  expect((await ask(app, accepted, as('one'))).statusCode).toBe(201)
})

describe('bindTo', () => {
  test.each([
    ['nothing', () => undefined],
    ['an empty string', () => ''],
    ['a number', () => 7 as never],
  ])('that returns %s fails closed, and only the log says why', async (_, returning) => {
    const { app, database, log } = await boundApp({ bindTo: returning })
    const failed = await send(app)
    expect(failed.statusCode).toBe(500)
    expect(failed.body).not.toMatch(/PAWL_|bindTo/)
    const err = expect.objectContaining({ code: 'PAWL_NO_BINDING' }) as object
    expect(log).toContainEqual(expect.objectContaining({ level: 50, err }))
    expect(await keyRows(database)).toEqual([])
  })

  test('that throws is answered by the application', async () => {
    const error = Object.assign(new Error('no session'), { statusCode: 403 })
    const { app } = await boundApp({ bindTo: () => Promise.reject(error) })
    expect((await send(app)).statusCode).toBe(403)
  })

  test('needs a secret of the engine', async () => {
    await expect(rideApp({ plugin: { bindTo } })).rejects.toThrow('bindTo needs a secret to hash with')
    await expect(rideApp({ plugin: { bindTo: 'x' as never } })).rejects.toThrow('bindTo is')
  })
})
