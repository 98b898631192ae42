import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { controlsOf } from '../../packages/crash-kit/src/provider/fake-provider.js'
import type { ReceivedRequest } from '../../packages/crash-kit/src/provider/received-request.js'
import { openSocket } from '../support/http-client.js'
import { gate } from '../support/signals.js'
import { keptConnection, openProvider, post, underKey } from './open-provider.js'

const sent = { amount: 20 }

test('the kit takes only what fakeProvider returns', () => {
  expect(() => controlsOf({} as never)).toThrow(
    expect.objectContaining({
      name: 'KitError',
      code: 'PAWL_KIT_INVALID_OPTION',
      message: 'crashKit: provider is an object; it takes what fakeProvider() returns.',
    }),
  )
})

test('arrived resolves when so many requests have come, executed or not', async () => {
  const { provider, controls, url } = await openProvider()
  const second = controls.arrived(2)
  await post(url, sent)
  await controls.arrived(1)
  const armed = controls.arm('timeoutBefore')
  const answered = post(url, sent)
  await second
  expect(provider.requests).toHaveLength(2)
  await armed.struck
  await provider.close()
  await expect(answered).rejects.toThrow('fetch failed')
})

describe('the listener', () => {
  test('is called with a request before it is executed, and returns whose it is', async () => {
    const { provider, controls, url } = await openProvider()
    const seen: unknown[] = []
    controls.onRequest((request) => {
      seen.push({ body: request.body, key: request.idempotencyKey, effects: provider.ledger.length })
      return { tick: 41, phase: 'charge_created', actor: 'client', inTransaction: true }
    })
    await post(`${url}/charges?now=1`, sent, underKey('k1'))
    expect(seen).toEqual([{ body: '{"amount":20}', key: 'k1', effects: 0 }])
    expect(provider.ledger).toMatchObject([{ tick: 41 }])
    expect(controls.history()).toEqual([
      {
        tick: 41,
        phase: 'charge_created',
        actor: 'client',
        inTransaction: true,
        method: 'POST',
        path: '/charges?now=1',
        body: '{"amount":20}',
        idempotencyKey: 'k1',
        executed: true,
      },
    ])
  })

  test('may arm a fault for the request that it is called with', async () => {
    const { controls, url } = await openProvider()
    controls.onRequest(({ idempotencyKey }) => {
      if (idempotencyKey === 'k2') controls.arm('tooMany')
      return null
    })
    expect((await post(url, sent, underKey('k1'))).status).toBe(200)
    expect((await post(url, sent, underKey('k2'))).status).toBe(429)
  })

  test('gets the port that the request came from', async () => {
    const { controls, url } = await openProvider()
    const ports: (number | null)[] = []
    controls.onRequest((_request, { clientPort }) => {
      ports.push(clientPort)
      return null
    })
    const [ann, bob] = [keptConnection(), keptConnection()]
    for (const client of [ann, bob, ann]) await client(url, sent)
    expect(ports[0]).toBeGreaterThan(0)
    expect(ports[1]).not.toBe(ports[0])
    expect(ports[2]).toBe(ports[0])
  })

  test('replaces the one before, and can be removed', async () => {
    const { controls, url } = await openProvider()
    const heard: string[] = []
    const listener = (name: string) => (request: ReceivedRequest) => {
      heard.push(`${name} ${request.method}`)
      return null
    }
    const silenceFirst = controls.onRequest(listener('first'))
    const silenceSecond = controls.onRequest(listener('second'))
    silenceFirst()
    await post(url, sent)
    silenceSecond()
    await post(url, sent)
    expect(heard).toEqual(['second POST'])
  })

  test('leaves the order and names nobody if it returns null or throws', async () => {
    const { controls, url } = await openProvider()
    const error = new Error('a mistake of the kit')
    controls.onRequest(({ idempotencyKey }) => {
      if (idempotencyKey === 'k2') throw error
      return null
    })
    expect((await post(url, sent, underKey('k1'))).status).toBe(200)
    expect((await post(url, sent, underKey('k2'))).status).toBe(200)
    const nobody = { phase: null, actor: null, inTransaction: false }
    expect(controls.history()).toMatchObject([
      { tick: 1, ...nobody },
      { tick: 2, ...nobody },
    ])
    expect(controls.failures()).toEqual([{ where: 'onRequest', error }])
  })
})

describe('reset', () => {
  test('forgets requests, effects, answers and mistakes, and starts counting again', async () => {
    const { provider, controls, url } = await openProvider({
      answer: ({ id, json }) => (json === null ? (undefined as never) : { body: { id } }),
    })
    const { body } = await post(url, sent, underKey('k1'))
    await post(url, null)
    controls.reset()
    expect([provider.ledger, provider.requests, controls.history(), controls.failures()]).toEqual([
      [],
      [],
      [],
      [],
    ])
    const again = await post(url, { amount: 21 }, underKey('k1'))
    expect(again.status).toBe(200)
    expect(again.body).not.toBe(body)
    expect(controls.history()).toMatchObject([{ tick: 1, executed: true }])
  })

  test('disarms faults', async () => {
    const { controls, url } = await openProvider()
    controls.arm('tooMany')
    controls.reset()
    expect((await post(url, sent)).status).toBe(200)
  })

  test('answers requests that still wait with a refusal, which no SDK sends again', async () => {
    const executed: unknown[] = []
    const { provider, controls, url } = await openProvider({
      answer: ({ id, json }) => {
        executed.push(json)
        return { body: { id } }
      },
    })
    const armed = (['timeoutBefore', 'hold', 'holdBefore'] as const).map((fault) => controls.arm(fault))
    const waiting = [post(url, 'first'), post(url, 'second'), post(url, 'third')]
    await Promise.all(armed.map(({ struck }) => struck))
    controls.reset()
    controls.letGo()
    for (const { status, body } of await Promise.all(waiting)) {
      expect({ status, body }).toEqual({ status: 400, body: expect.stringContaining('case_over') as string })
    }
    await post(url, 'fourth')
    // Only the one that was held after it was executed, and none that was held before.
    expect(executed).toHaveLength(2)
    expect(executed.at(-1)).toBe('fourth')
    expect(provider.requests).toMatchObject([{ json: 'fourth', executed: true }])
  })

  test('refuses a request that is still on its way, and does not count the rest of it', async () => {
    const { provider, controls, url } = await openProvider()
    const socket = await openSocket(url)
    // It has begun as soon as the provider asks for its body.
    socket.write('POST /first HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n')
    const [goOn] = (await once(socket, 'data')) as [Buffer]
    expect(goOn.toString()).toMatch(/^HTTP\/1.1 100/)
    controls.reset()
    // This is for the next request, which that one is not.
    controls.arm('tooMany')
    const [refused] = (await once(socket, 'data')) as [Buffer]
    expect(refused.toString()).toMatch(/^HTTP\/1.1 400/)
    socket.write('0123456789')
    socket.write('POST /second HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n')
    // It uses the same connection, so that it comes after the rest of the first.
    socket.resume()
    await once(socket, 'close')
    expect(provider.requests).toMatchObject([{ path: '/second', status: 429 }])
    expect(provider.ledger).toEqual([])
  })

  test('keeps what is under way out of the next state', async () => {
    const [begun, goOn, ended] = [gate(), gate(), gate()]
    const { provider, controls, url } = await openProvider({
      answer: async ({ id }) => {
        begun.open()
        await goOn.opened
        // This runs after every promise that waits for this answer.
        setImmediate(ended.open)
        return { body: { id } }
      },
    })
    const answered = post(url, sent, underKey('k1'))
    await begun.opened
    controls.reset()
    expect((await answered).status).toBe(400)
    goOn.open()
    await ended.opened
    expect([provider.ledger, provider.requests]).toEqual([[], []])
  })

  test('leaves alone answers that have been sent, and idle connections', async () => {
    const { controls, url } = await openProvider()
    const client = keptConnection()
    const armed = controls.arm('tooMany')
    const answered = client(url, sent)
    await armed.struck
    controls.reset()
    expect(await answered).toEqual({ status: 429, reused: false })
    controls.reset()
    expect(await client(url, sent)).toEqual({ status: 200, reused: true })
  })
})
