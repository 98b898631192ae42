import { beforeEach, describe, expect, test } from 'vitest'
import type { ProviderFault } from '../../packages/crash-kit/src/provider/provider-fault.js'
import { keptConnection, openProvider, post, type OpenedProvider, underKey } from './open-provider.js'

const sent = { amount: 20 }

let opened: OpenedProvider
beforeEach(async () => {
  opened = await openProvider()
})

/** Expects that a second attempt under the key of the fault's request gets the effect, which happened once. */
async function expectOneEffectAfterRetry(): Promise<void> {
  const { provider, url } = opened
  const { status, body } = await post(url, sent, underKey('k1'))
  expect(status).toBe(200)
  expect(provider.ledger).toMatchObject([
    { id: (JSON.parse(body) as { id: string }).id, idempotencyKey: 'k1' },
  ])
}

describe('a request that is never answered', () => {
  test.each<[ProviderFault, boolean]>([
    ['timeoutBefore', false],
    ['timeoutAfter', true],
  ])('%s: executed is %s, and its client waits until the connection ends', async (fault, executed) => {
    const { provider, controls, url } = opened
    const armed = controls.arm(fault)
    const answered = post(url, sent, underKey('k1'))
    await armed.struck
    expect(provider.ledger).toHaveLength(executed ? 1 : 0)
    expect(provider.requests).toMatchObject([{ executed, status: null }])
    await expectOneEffectAfterRetry()
    await provider.close()
    await expect(answered).rejects.toThrow('fetch failed')
  })

  test('does not keep a client that gives up', async () => {
    const { provider, controls, url } = opened
    const armed = controls.arm('timeoutAfter')
    const patience = new AbortController()
    const answered = fetch(url, { method: 'POST', signal: patience.signal })
    await armed.struck
    patience.abort(new Error('too long'))
    await expect(answered).rejects.toThrow('too long')
    expect(provider.ledger).toHaveLength(1)
  })
})

test.each<[ProviderFault, boolean]>([
  ['cutBefore', false],
  ['cutAfter', true],
])('%s: the connection breaks, executed is %s', async (fault, executed) => {
  const { provider, controls, url } = opened
  const armed = controls.arm(fault)
  await expect(post(url, sent, underKey('k1'))).rejects.toThrow('fetch failed')
  expect(armed.hasStruck).toBe(true)
  expect(provider.ledger).toHaveLength(executed ? 1 : 0)
  expect(provider.requests).toMatchObject([{ executed, status: null }])
  await expectOneEffectAfterRetry()
})

test.each<[ProviderFault, number, string | null]>([
  ['tooMany', 429, '1'],
  ['serverError', 500, null],
  ['unavailable', 503, '1'],
])('%s: %i, not executed, not remembered', async (fault, status, retryAfter) => {
  const { provider, controls, url } = opened
  const armed = controls.arm(fault)
  const refused = await post(url, sent, underKey('k1'))
  expect(refused.status).toBe(status)
  expect(refused.headers.get('retry-after')).toBe(retryAfter)
  expect(refused.headers.get('content-type')).toBe('application/json')
  expect(armed.hasStruck).toBe(true)
  expect(provider.ledger).toEqual([])
  expect(provider.requests).toMatchObject([{ executed: false, status }])
  await expectOneEffectAfterRetry()
})

test('a refusal also meets a repetition, whose effect stays', async () => {
  const { controls, url } = opened
  await post(url, sent, underKey('k1'))
  controls.arm('serverError')
  expect((await post(url, sent, underKey('k1'))).status).toBe(500)
  await expectOneEffectAfterRetry()
})

test('malformed: executed, and the body ends in the middle of a whole response', async () => {
  const { provider, controls, url } = opened
  controls.arm('malformed')
  const { status, headers, body } = await post(url, sent, underKey('k1'))
  expect({ status, type: headers.get('content-type') }).toEqual({ status: 200, type: 'application/json' })
  expect(headers.get('content-length')).toBe(String(body.length))
  expect(body).not.toBe('')
  expect(() => JSON.parse(body) as unknown).toThrow(SyntaxError)
  expect(provider.ledger).toHaveLength(1)
  await expectOneEffectAfterRetry()
})

describe('a request that is held', () => {
  test('hold: is executed at once, and answered when it is let go', async () => {
    const { provider, controls, url } = opened
    const armed = controls.arm('hold')
    const answered = post(url, sent, underKey('k1'))
    await armed.struck
    expect(provider.ledger).toHaveLength(1)
    expect(provider.requests).toMatchObject([{ executed: true, status: null }])
    controls.letGo()
    expect((await answered).status).toBe(200)
    await expectOneEffectAfterRetry()
  })

  test('holdBefore: is executed and answered when it is let go', async () => {
    const { provider, controls, url } = opened
    const armed = controls.arm('holdBefore')
    const answered = post(url, sent, underKey('k1'))
    await armed.struck
    expect(provider.requests).toMatchObject([{ executed: false, status: null }])
    expect(provider.ledger).toEqual([])
    controls.letGo()
    expect((await answered).headers.get('idempotent-replayed')).toBeNull()
    await expectOneEffectAfterRetry()
  })

  test('holdBefore: a second attempt overtakes it, and it becomes the repetition', async () => {
    const { provider, controls, url } = opened
    const armed = controls.arm('holdBefore')
    const answered = post(url, sent, underKey('k1'))
    await armed.struck
    const overtaking = await post(url, sent, underKey('k1'))
    controls.letGo()
    const late = await answered
    expect(late.headers.get('idempotent-replayed')).toBe('true')
    expect(late.body).toBe(overtaking.body)
    expect(provider.ledger).toHaveLength(1)
  })

  test('is executed even if its client has gone away', async () => {
    const { provider, controls, url } = opened
    const armed = controls.arm('holdBefore')
    const gone = new AbortController()
    const answered = fetch(url, { method: 'POST', headers: underKey('k1'), signal: gone.signal })
    await armed.struck
    gone.abort()
    await expect(answered).rejects.toThrow('aborted')
    controls.letGo()
    // Its repetition finds it, since that comes a moment later, whatever the provider does in between.
    const { headers } = await fetch(url, { method: 'POST', headers: underKey('k1') })
    expect(headers.get('idempotent-replayed')).toBe('true')
    expect(provider.ledger).toHaveLength(1)
  })

  test('can be one of several, and all are let go', async () => {
    const { provider, controls, url } = opened
    const armed = [controls.arm('hold'), controls.arm('holdBefore')]
    const both = [post(url, sent, underKey('k1')), post(url, sent, underKey('k2'))]
    await Promise.all(armed.map(({ struck }) => struck))
    controls.letGo()
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([200, 200])
    expect(provider.ledger).toHaveLength(2)
  })
})

describe('a fault that is armed', () => {
  test('meets one request, and waits for one that changes something', async () => {
    const { controls, url } = opened
    const armed = controls.arm('tooMany')
    expect((await fetch(url)).status).toBe(404)
    expect(armed.hasStruck).toBe(false)
    expect((await post(url, sent)).status).toBe(429)
    expect((await post(url, sent)).status).toBe(200)
  })

  test("meets a query as well, with on: 'any'", async () => {
    const { controls, url } = opened
    controls.arm('unavailable', { on: 'any' })
    expect((await fetch(url)).status).toBe(503)
    expect((await fetch(url)).status).toBe(404)
  })

  test('comes after those that were armed before, as far as they apply', async () => {
    const { controls, url } = opened
    controls.arm('tooMany')
    controls.arm('unavailable', { on: 'any' })
    expect((await fetch(url)).status).toBe(503)
    controls.arm('serverError')
    expect((await post(url, sent)).status).toBe(429)
    expect((await post(url, sent)).status).toBe(500)
  })

  test('meets no request once it is disarmed', async () => {
    const { controls, url } = opened
    const [first, second] = [controls.arm('tooMany'), controls.arm('unavailable')]
    first.disarm()
    expect((await post(url, sent)).status).toBe(503)
    expect([first.hasStruck, second.hasStruck]).toEqual([false, true])
  })

  test('breaks only its own connection; others are kept and used again', async () => {
    const { controls, url } = opened
    const [ann, bob] = [keptConnection(), keptConnection()]
    expect(await ann(url, sent)).toEqual({ status: 200, reused: false })
    expect(await bob(url, sent)).toEqual({ status: 200, reused: false })
    controls.arm('cutAfter')
    await expect(ann(url, sent)).rejects.toThrow('socket hang up')
    expect(await bob(url, sent)).toEqual({ status: 200, reused: true })
    expect(await ann(url, sent)).toEqual({ status: 200, reused: false })
  })
})
