import { describe, expect, test } from 'vitest'
import { fakeProvider } from '../../packages/crash-kit/src/provider/fake-provider.js'
import { ProviderError } from '../../packages/crash-kit/src/provider/provider-error.js'
import { openProvider } from './open-provider.js'

const refusal = (message: string) => ({ name: 'KitError', code: 'PAWL_KIT_INVALID_OPTION', message })

describe('send', () => {
  test('has one effect per key', async () => {
    const { provider } = await openProvider()
    const first = await provider.send({ amount: 20 }, { idempotencyKey: 'k1' })
    expect(first).toEqual({ id: provider.ledger[0]?.id, amount: 20 })
    expect(await provider.send({ amount: 20 }, { idempotencyKey: 'k1' })).toEqual(first)
    expect(provider.ledger).toMatchObject([{ idempotencyKey: 'k1', method: 'POST', path: '/effects' }])
    expect(provider.requests[0]?.headers['content-type']).toBe('application/json')
  })

  test('uses the path and the method of its options', async () => {
    const { provider } = await openProvider()
    await provider.send('so', { path: '/charges/7', method: 'PUT' })
    expect(provider.ledger).toMatchObject([
      { idempotencyKey: null, method: 'PUT', path: '/charges/7', body: '"so"' },
    ])
  })

  test("throws the provider's refusal, with its status and body", async () => {
    const { provider } = await openProvider({
      answer: () => ({ status: 402, body: { code: 'card_declined' } }),
    })
    const refused = await provider.send({}).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(ProviderError)
    expect(refused).toMatchObject({ status: 402, body: { code: 'card_declined' } })
    expect((refused as Error).message).toBe(
      'The provider answered 402 to POST /effects: {"code":"card_declined"}',
    )
  })

  test('throws a refusal that is not JSON', async () => {
    const { provider } = await openProvider({ answer: () => ({ status: 502, body: 'bad gateway' }) })
    await expect(provider.send({})).rejects.toMatchObject({ status: 502, body: 'bad gateway' })
  })

  test('throws a SyntaxError for an answer that cannot be read', async () => {
    const { provider, controls } = await openProvider()
    controls.arm('malformed')
    await expect(provider.send({ amount: 20 })).rejects.toThrow(SyntaxError)
    expect(provider.ledger).toHaveLength(1)
  })

  test.each([[{ ok: true }], [null], [{ id: 7 }]])('throws for an answer without an id: %j', async (body) => {
    const { provider } = await openProvider({ answer: () => ({ body }) })
    const message = 'The answer to POST /effects has no id. provider.send and provider.find read { id, … }'
    const thrown = await provider.send({}).catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(TypeError)
    expect((thrown as Error).message).toContain(message)
  })

  test('throws if the connection breaks', async () => {
    const { provider, controls } = await openProvider()
    controls.arm('cutAfter')
    await expect(provider.send({})).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(await provider.send({ amount: 20 })).toMatchObject({ amount: 20 })
  })

  test('uses a new connection each time, whatever happened to the last one', async () => {
    const { provider } = await openProvider()
    await provider.send({}, { idempotencyKey: 'k1' })
    await provider.find('k1')
    expect(provider.requests.map(({ headers }) => headers.connection)).toEqual(['close', 'close'])
  })

  test('ends when its signal aborts, whatever the provider did', async () => {
    const { provider, controls } = await openProvider()
    const armed = controls.arm('timeoutAfter')
    const patience = new AbortController()
    const answered = provider.send({}, { signal: patience.signal })
    await armed.struck
    patience.abort()
    await expect(answered).rejects.toMatchObject({ name: 'AbortError' })
    expect(provider.ledger).toHaveLength(1)
  })
})

describe('find', () => {
  test('returns what send returned, even if nothing is deduplicated, and null for an unknown key', async () => {
    const { provider, controls } = await openProvider({ keyOf: null })
    const sent = await provider.send({ amount: 20 }, { idempotencyKey: 'k1' })
    expect(await provider.find('k1')).toEqual(sent)
    expect(await provider.find('k2')).toBeNull()
    expect(controls.history().slice(1)).toMatchObject([
      { method: 'GET', idempotencyKey: 'k1', executed: false },
      { method: 'GET', idempotencyKey: 'k2', executed: false },
    ])
  })

  test('throws if the provider does not say', async () => {
    const { provider, controls } = await openProvider()
    controls.arm('unavailable', { on: 'any' })
    await expect(provider.find('k1', { path: '/charges' })).rejects.toMatchObject({
      status: 503,
      message: expect.stringContaining('503 to GET /charges') as string,
    })
  })
})

describe('the error for a wrong option names it, its value and what it takes', () => {
  test.each<[unknown, string]>([
    [null, 'fakeProvider: the options are null; they have to be an object.'],
    [{ anwser: () => ({}) }, "fakeProvider: unknown option 'anwser'. The options are answer, keyOf, find."],
    [{ answer: {} }, 'fakeProvider: answer is an object; it takes a function.'],
    [{ keyOf: 'id' }, "fakeProvider: keyOf is 'id'; it takes a function."],
    [{ find: null }, 'fakeProvider: find is null; it takes a function.'],
  ])('fakeProvider(%o)', (options, message) => {
    expect(() => fakeProvider(options as never)).toThrow(expect.objectContaining(refusal(message)))
  })

  test.each<[unknown, string]>([
    [
      { key: 'k1' },
      "provider.send: unknown option 'key'. The options are idempotencyKey, signal, path, method.",
    ],
    [{ idempotencyKey: 7 }, 'provider.send: idempotencyKey is 7; it takes a string.'],
    [{ path: 'charges' }, "provider.send: path is 'charges'; it takes a path that begins with '/'."],
    [{ method: 'GET' }, "provider.send: method is 'GET'; it takes one of 'POST', 'PUT', 'PATCH', 'DELETE'."],
  ])('send({}, %o)', async (options, message) => {
    const { provider } = await openProvider()
    await expect(provider.send({}, options as never)).rejects.toMatchObject(refusal(message))
    expect(provider.requests).toEqual([])
  })

  test.each<[unknown, unknown, string]>([
    [undefined, {}, 'provider.find: idempotencyKey is undefined; it takes a string.'],
    ['k1', { method: 'GET' }, "provider.find: unknown option 'method'. The options are signal, path."],
    ['k1', { path: '' }, "provider.find: path is ''; it takes a path that begins with '/'."],
  ])('find(%o, %o)', async (key, options, message) => {
    const { provider } = await openProvider()
    await expect(provider.find(key as never, options as never)).rejects.toMatchObject(refusal(message))
    expect(provider.requests).toEqual([])
  })
})
