import { describe, expect, test } from 'vitest'
import { gate } from '../support/signals.js'
import { openProvider, post, answerOf, underKey } from './open-provider.js'

describe('an effect', () => {
  test('is executed, answered with its fields and an id, and recorded in the ledger', async () => {
    const { provider, url } = await openProvider()
    const { status, headers, body } = await post(`${url}/charges?test=1`, { amount: 20 }, underKey('k1'))
    const { id } = JSON.parse(body) as { id: string }
    expect({ status, type: headers.get('content-type') }).toEqual({ status: 200, type: 'application/json' })
    expect(JSON.parse(body)).toEqual({ id: expect.stringMatching(/^ef_[0-9a-f-]{36}$/), amount: 20 })
    expect(provider.ledger).toEqual([
      {
        id,
        idempotencyKey: 'k1',
        method: 'POST',
        path: '/charges',
        body: '{"amount":20}',
        answer: { amount: 20, id },
        tick: 1,
        at: expect.any(Date),
      },
    ])
    const [request] = provider.requests
    expect(request).toMatchObject({ idempotencyKey: 'k1', executed: true, status: 200, json: { amount: 20 } })
    expect(request?.query.get('test')).toBe('1')
  })

  test('has an id of its own, even if the request has one', async () => {
    const { provider, url } = await openProvider()
    const { body } = await post(url, { id: 'mine' })
    expect((JSON.parse(body) as { id: string }).id).toBe(provider.ledger[0]?.id)
    expect(provider.ledger[0]?.id).toMatch(/^ef_/)
  })

  test.each(['POST', 'PUT', 'PATCH', 'DELETE'])('can be a %s', async (method) => {
    const { provider, url } = await openProvider()
    await fetch(url, { method })
    expect(provider.ledger).toMatchObject([{ method, idempotencyKey: null }])
  })

  test.each<[string, unknown]>([
    ['a list', [1, 2]],
    ['null', null],
    ['text', 'so'],
  ])('of %s gets an answer with only an id', async (_name, sent) => {
    const { provider, url } = await openProvider()
    const { body } = await post(url, sent)
    expect(JSON.parse(body)).toEqual({ id: provider.ledger[0]?.id })
    expect(provider.requests[0]?.json).toEqual(sent)
  })

  test('of a form gets its fields, and json is undefined if the body is not JSON', async () => {
    const { provider, url } = await openProvider()
    const form = new URLSearchParams({ amount: '20', 'metadata[ride]': '7' })
    const { body } = await answerOf(await fetch(url, { method: 'POST', body: form }))
    expect(JSON.parse(body)).toEqual({ id: provider.ledger[0]?.id, amount: '20', 'metadata[ride]': '7' })
    expect(provider.requests[0]?.form.get('metadata[ride]')).toBe('7')
    expect(provider.requests[0]?.json).toBeUndefined()
  })
})

describe('an answer of the user', () => {
  test('is sent as it is, and names the effect', async () => {
    const { provider, url } = await openProvider({
      answer: async ({ json }) => ({
        status: 201,
        // This length would be wrong.
        headers: { 'X-Trace': 't1', 'Content-Length': '3' },
        body: { id: 'ch_1', of: json },
      }),
    })
    const { status, headers, body } = await post(url, { amount: 20 })
    expect({ status, trace: headers.get('x-trace') }).toEqual({ status: 201, trace: 't1' })
    expect(JSON.parse(body)).toEqual({ id: 'ch_1', of: { amount: 20 } })
    expect(provider.ledger).toMatchObject([{ id: 'ch_1', answer: { id: 'ch_1', of: { amount: 20 } } }])
  })

  test.each<[string, unknown, string, string | null]>([
    ['text', 'done', 'done', 'text/plain; charset=utf-8'],
    ['bytes', new Uint8Array([111, 107]), 'ok', 'application/octet-stream'],
    ['nothing', undefined, '', null],
  ])('may be %s', async (_name, given, body, type) => {
    const { provider, url } = await openProvider({ answer: () => ({ body: given }) })
    const told = await post(url, {})
    expect({ body: told.body, type: told.headers.get('content-type') }).toEqual({ body, type })
    // The body has no id, so the effect has the request's.
    expect(provider.ledger[0]?.id).toBe(provider.requests[0]?.id)
  })

  test('of 400 and above executes nothing, and is remembered for its key', async () => {
    let asked = 0
    const answer = () => ({ status: ++asked === 1 ? 402 : 200, body: { asked } })
    const { provider, url } = await openProvider({ answer })
    const first = await post(url, { amount: 20 }, underKey('k1'))
    const second = await post(url, { amount: 20 }, underKey('k1'))
    expect([first.status, second.status]).toEqual([402, 402])
    expect(second.body).toBe(first.body)
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect(provider.ledger).toEqual([])
    expect(provider.requests).toMatchObject([
      { executed: false, status: 402 },
      { executed: false, status: 402 },
    ])
    expect((await post(url, { amount: 20 }, underKey('k2'))).status).toBe(200)
  })

  test.each<[string, () => unknown, string]>([
    ['throws', () => Promise.reject(new Error('no such card')), 'no such card'],
    ['returns nothing', () => undefined, 'its answer: the options are undefined; they have to be an object'],
    [
      'forgets body',
      () => ({ id: 'ch_1' }),
      "its answer: unknown option 'id'. The options are status, headers, body",
    ],
    [
      'returns an unknown status',
      () => ({ status: 42 }),
      'status is 42; it takes a whole number from 200 to 599',
    ],
    ['returns what is not JSON', () => ({ body: 1n }), 'BigInt'],
    ['returns a wrong header', () => ({ headers: { 'x y': '1' } }), 'x y'],
  ])(
    'that %s becomes a 500 that says so, executes nothing and is remembered',
    async (_name, answer, message) => {
      const { provider, controls, url } = await openProvider({ answer: answer as never })
      for (const time of [1, 2]) {
        const { status, headers, body } = await post(url, {}, underKey('k1'))
        expect(headers.get('idempotent-replayed')).toBe(time === 1 ? null : 'true')
        expect({ status, body }).toEqual({ status: 500, body: expect.stringContaining(message) as string })
        expect(body).toContain('fakeProvider: answer failed')
      }
      expect(provider.ledger).toEqual([])
      expect(controls.failures()).toEqual([{ where: 'answer', error: expect.any(Error) as Error }])
    },
  )
})

describe('a repetition', () => {
  test('under the same key gets the first answer, and has no second effect', async () => {
    const { provider, url } = await openProvider()
    const first = await post(url, { amount: 20 }, underKey('k1'))
    const second = await post(url, { amount: 20 }, underKey('k1'))
    expect(second.body).toBe(first.body)
    expect(first.headers.get('idempotent-replayed')).toBeNull()
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect(provider.ledger).toHaveLength(1)
    expect(provider.requests.map(({ executed }) => executed)).toEqual([true, false])
  })

  test('without a key, with an empty one, or under another one is an effect of its own', async () => {
    const { provider, url } = await openProvider()
    for (const headers of [{}, {}, underKey(''), underKey(''), underKey('k1'), underKey('k2')])
      await post(url, { amount: 20 }, headers)
    expect(provider.ledger.map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      null,
      null,
      null,
      null,
      'k1',
      'k2',
    ])
  })

  test('may order its fields differently', async () => {
    const { provider, url } = await openProvider()
    const first = await post(`${url}?a=1&b=2`, { amount: 20, to: { name: 'ann', no: 1 } }, underKey('k1'))
    const second = await post(`${url}?b=2&a=1`, { to: { no: 1, name: 'ann' }, amount: 20 }, underKey('k1'))
    expect(second.body).toBe(first.body)
    const form = (fields: string) =>
      fetch(url, { method: 'POST', body: new URLSearchParams(fields), headers: underKey('k2') })
    await form('a=1&b=2')
    expect((await form('b=2&a=1')).status).toBe(200)
    expect(provider.ledger).toHaveLength(2)
  })

  test.each<[string, string, string, string]>([
    ['body', 'POST', '/', '{"amount":21}'],
    ['order of a list', 'POST', '/', '{"amount":20,"of":[2,1]}'],
    ['path', 'POST', '/refunds', '{"amount":20,"of":[1,2]}'],
    ['query', 'POST', '/?now=1', '{"amount":20,"of":[1,2]}'],
    ['method', 'PUT', '/', '{"amount":20,"of":[1,2]}'],
    ['media type', 'POST', '/', 'no JSON'],
  ])('with another %s is refused with 409, and recorded', async (_what, method, path, body) => {
    const { provider, controls, url } = await openProvider()
    const first = await post(url, { amount: 20, of: [1, 2] }, underKey('k1'))
    const other = await answerOf(await fetch(url + path, { method, body, headers: underKey('k1') }))
    expect(other.status).toBe(409)
    expect(other.body).toContain('idempotency_key_reused')
    expect(provider.ledger).toHaveLength(1)
    expect(controls.history()).toMatchObject([
      { idempotencyKey: 'k1', executed: true },
      { idempotencyKey: 'k1', executed: false, body },
    ])
    expect(provider.requests[1]?.status).toBe(409)
    // The first answer is still the one for its key.
    expect((await post(url, { amount: 20, of: [1, 2] }, underKey('k1'))).body).toBe(first.body)
  })

  test('that comes while the first is being executed waits for its answer', async () => {
    const executed = gate()
    let asked = 0
    const { provider, controls, url } = await openProvider({
      answer: async ({ id }) => {
        asked++
        await executed.opened
        return { body: { id } }
      },
    })
    const both = [post(url, {}, underKey('k1')), post(url, {}, underKey('k1'))]
    await controls.arrived(2)
    executed.open()
    const [first, second] = await Promise.all(both)
    expect(first?.body).toBe(second?.body)
    expect(asked).toBe(1)
    expect(provider.ledger).toHaveLength(1)
  })

  test('is recognised by what keyOf returns', async () => {
    const { provider, url } = await openProvider({
      keyOf: ({ json }) => (json as { reference?: string }).reference ?? null,
    })
    await post(url, { reference: 'r1' }, underKey('a'))
    await post(url, { reference: 'r1' }, underKey('b'))
    await post(url, {}, underKey('c'))
    await post(url, {}, underKey('c'))
    // Without such a key, what the client sent is recorded anyway.
    expect(provider.ledger.map(({ idempotencyKey }) => idempotencyKey)).toEqual(['r1', 'c', 'c'])
  })

  test('is a second effect if the provider does not deduplicate', async () => {
    const { provider, url } = await openProvider({ keyOf: null })
    await post(url, { amount: 20 }, underKey('k1'))
    await post(url, { amount: 21 }, underKey('k1'))
    expect(provider.ledger.map(({ idempotencyKey }) => idempotencyKey)).toEqual(['k1', 'k1'])
  })

  test.each<[string, () => unknown, string]>([
    ['throws', () => (undefined as never as { x: string }).x, 'Cannot read properties of undefined'],
    [
      'returns a number',
      () => 7,
      'it returned a value of type number; it has to return a string, or null for no key',
    ],
  ])('is not recognised if keyOf %s, which becomes a 500 that says so', async (_name, keyOf, message) => {
    const { provider, controls, url } = await openProvider({ keyOf: keyOf as never })
    const { status, body } = await post(url, {}, underKey('k1'))
    expect({ status, body }).toEqual({ status: 500, body: expect.stringContaining(message) as string })
    expect(provider.ledger).toEqual([])
    expect(provider.requests).toMatchObject([{ idempotencyKey: 'k1', executed: false, status: 500 }])
    expect(controls.failures()).toMatchObject([{ where: 'keyOf' }])
  })
})
