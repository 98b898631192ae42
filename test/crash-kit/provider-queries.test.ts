import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { openSocket } from '../support/http-client.js'
import { openProvider, post, answerOf, underKey } from './open-provider.js'

const MIB = 1024 * 1024

describe('a query', () => {
  test('is answered from the ledger, by ?key= or by header, and has no effect', async () => {
    const { provider, url } = await openProvider({ keyOf: null })
    const { body } = await post(url, { amount: 20 }, underKey('k 1'))
    await post(url, { amount: 21 }, underKey('k 1'))
    await post(url, { amount: 22 })
    expect(await (await fetch(`${url}/charges?key=k%201`)).text()).toBe(body)
    expect(await (await fetch(url, { headers: underKey('k 1') })).text()).toBe(body)
    expect((await fetch(`${url}?key=k2`)).status).toBe(404)
    expect((await fetch(url)).status).toBe(404)
    expect((await fetch(`${url}?key=k%201`, { method: 'HEAD' })).status).toBe(200)
    expect(provider.ledger).toHaveLength(3)
    expect(provider.requests.slice(3).map(({ executed }) => executed)).toEqual(Array(5).fill(false))
  })

  test('is not passed to keyOf, and does not use up a key', async () => {
    const { provider, url } = await openProvider({
      keyOf: ({ json }) => (json as { reference: string }).reference,
    })
    await fetch(`${url}?key=r1`)
    expect((await post(url, { reference: 'r1' })).status).toBe(200)
    expect((await fetch(`${url}?key=r1`)).status).toBe(200)
    expect(provider.requests.map(({ status }) => status)).toEqual([404, 200, 200])
  })

  test('is answered by find, which gets a copy of the ledger', async () => {
    const { provider, url } = await openProvider({
      find: async ({ path }, ledger) => {
        const effect = ledger.find(({ id }) => path === `/charges/${id}`)
        ;(ledger as unknown[]).length = 0
        return effect === undefined ? null : { status: 203, body: effect.answer }
      },
    })
    const { body } = await post(url, { amount: 20 })
    const found = await answerOf(await fetch(`${url}/charges/${provider.ledger[0]?.id}`))
    expect({ status: found.status, body: found.body }).toEqual({ status: 203, body })
    expect((await fetch(`${url}/charges/none`)).status).toBe(404)
    expect(provider.ledger).toHaveLength(1)
  })

  test('becomes a 500 that says so if find fails', async () => {
    const { controls, url } = await openProvider({ find: (() => undefined) as never })
    const { status, body } = await answerOf(await fetch(url))
    expect({ status, body }).toEqual({
      status: 500,
      body: expect.stringContaining('fakeProvider: find failed') as string,
    })
    expect(controls.failures()).toMatchObject([{ where: 'find' }])
  })
})

describe('a body', () => {
  test('of a mebibyte is accepted', async () => {
    const { provider, url } = await openProvider()
    expect((await fetch(url, { method: 'POST', body: 'x'.repeat(MIB) })).status).toBe(200)
    expect(provider.requests[0]?.body).toHaveLength(MIB)
  })

  test('of more is refused with 413 and recorded, and neither executed nor remembered', async () => {
    const { provider, controls, url } = await openProvider()
    const armed = controls.arm('cutBefore')
    const large = { method: 'POST', body: 'x'.repeat(3 * MIB), headers: underKey('k1') }
    expect((await fetch(url, large)).status).toBe(413)
    expect(provider.ledger).toEqual([])
    expect(provider.requests).toMatchObject([{ idempotencyKey: 'k1', executed: false, status: 413 }])
    expect(armed.hasStruck).toBe(false)
    armed.disarm()
    expect((await post(url, {}, underKey('k1'))).status).toBe(200)
  })

  test('that is nested too deeply for the stack is accepted, and its repetition recognised', async () => {
    const { provider, url } = await openProvider({ answer: ({ id }) => ({ body: { id } }) })
    const deep = { method: 'POST', body: '['.repeat(100_000) + ']'.repeat(100_000), headers: underKey('k1') }
    expect([(await fetch(url, deep)).status, (await fetch(url, deep)).status]).toEqual([200, 200])
    expect(provider.ledger).toHaveLength(1)
  })

  test('that never ends is not recorded as a request', async () => {
    const { provider, controls, url } = await openProvider()
    const socket = await openSocket(url)
    socket.resume()
    socket.end('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345')
    await once(socket, 'close')
    await post(url, {})
    await controls.arrived(1)
    expect(provider.requests).toMatchObject([{ body: '{}' }])
  })

  test('is not needed: a request with a malformed URL is answered as well', async () => {
    const { provider, url } = await openProvider()
    const socket = await openSocket(url)
    socket.write('POST //?? HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n')
    const [first] = (await once(socket, 'data')) as [Buffer]
    expect(first.toString()).toMatch(/^HTTP\/1.1 200/)
    expect(provider.requests[0]?.path).toBe('//')
  })
})
