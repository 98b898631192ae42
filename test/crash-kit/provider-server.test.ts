import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { controlsOf, fakeProvider } from '../../packages/crash-kit/src/provider/fake-provider.js'
import { openSocket } from '../support/http-client.js'
import { keptConnection, openProvider, post, underKey } from './open-provider.js'

const notStarted = (message: string) =>
  expect.objectContaining({ name: 'KitError', code: 'PAWL_KIT_NOT_STARTED', message })

describe('the address', () => {
  test('exists once the provider is started, however often, and not before', async () => {
    const provider = fakeProvider()
    onTestFinished(() => provider.close())
    expect(() => provider.url).toThrow(
      notStarted('provider.url: the fake provider has no address yet. Write `await provider.start()` first.'),
    )
    await Promise.all([provider.start(), provider.start()])
    const { url } = provider
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    await provider.start()
    expect(provider.url).toBe(url)
    expect((await post(url, {})).status).toBe(200)
  })

  test('exists after the first send', async () => {
    const provider = fakeProvider()
    onTestFinished(() => provider.close())
    const both = await Promise.all([provider.send({}), provider.send({})])
    expect(provider.ledger.map(({ id }) => id).toSorted()).toEqual(both.map(({ id }) => id).toSorted())
    expect((await post(provider.url, {})).status).toBe(200)
  })
})

describe('a closed provider', () => {
  test('has no address, does not open for a late request, and its ledger can be read', async () => {
    const { provider } = await openProvider()
    const { id } = await provider.send({}, { idempotencyKey: 'k1' })
    await provider.close()
    await provider.close()
    const closed = 'provider.url: the fake provider is closed. Write `await provider.start()` first.'
    expect(() => provider.url).toThrow(notStarted(closed))
    await expect(provider.send({})).rejects.toThrow(notStarted(closed))
    await expect(provider.find('k1')).rejects.toThrow(notStarted(closed))
    expect(provider.ledger).toMatchObject([{ id }])
    await provider.start()
    expect(await provider.find('k1')).toEqual({ id })
  })

  test('is closed even if it never listened', async () => {
    const provider = fakeProvider()
    const started = provider.start()
    await provider.close()
    await started
    expect(() => provider.url).toThrow('is closed')
  })

  test('ends every connection: waiting for an answer, idle, and without a request', async () => {
    const { provider, controls, url } = await openProvider()
    const armed = controls.arm('timeoutAfter')
    const answered = post(url, {})
    await armed.struck
    await keptConnection()(url, {})
    const silent = await openSocket(url)
    const ended = once(silent, 'close')
    silent.resume()
    await provider.close()
    await ended
    await expect(answered).rejects.toThrow('fetch failed')
  })
})

/** Returns the sockets and servers that keep this process alive. */
const resources = () =>
  process
    .getActiveResourcesInfo()
    .filter((name) => name.startsWith('TCP'))
    .toSorted()

test('neither the provider nor its connections keep a process alive', async () => {
  const provider = fakeProvider()
  onTestFinished(() => provider.close())
  const before = resources()
  await provider.start()
  expect(resources()).toEqual(before)
  const socket = await openSocket(provider.url)
  // The provider has accepted it as soon as it answers.
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  await once(socket, 'data')
  socket.unref()
  expect(resources()).toEqual(before)
  socket.destroy()
})

test('the provider runs outside the async context of whoever starts it or sends', async () => {
  const context = new AsyncLocalStorage<string>()
  const seen: unknown[] = []
  const provider = fakeProvider({
    answer: ({ id }) => {
      seen.push(context.getStore())
      return { body: { id } }
    },
  })
  onTestFinished(() => provider.close())
  controlsOf(provider).onRequest(() => {
    seen.push(context.getStore())
    return null
  })
  await context.run('the call of a phase', () => provider.send({}))
  await context.run('the call of another phase', () => post(provider.url, {}))
  expect(seen).toEqual([undefined, undefined, undefined, undefined])
})

describe('a connection that is kept', () => {
  test('is used again, even after a request that was refused', async () => {
    const { provider, controls, url } = await openProvider()
    const client = keptConnection()
    expect(await client(url, {})).toEqual({ status: 200, reused: false })
    controls.arm('serverError')
    expect(await client(url, {})).toEqual({ status: 500, reused: true })
    expect(await client(url, {})).toEqual({ status: 200, reused: true })
    expect(provider.ledger).toHaveLength(2)
  })

  test('is never ended by the provider itself', async () => {
    const { url } = await openProvider()
    const { headers } = await post(url, {}, underKey('k1'))
    expect([headers.get('connection'), headers.get('keep-alive')]).toEqual(['keep-alive', null])
  })
})
