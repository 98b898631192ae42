import { createHmac } from 'node:crypto'
import { inspect } from 'node:util'
import { safeError } from '@pawl/core'
import { urlAuthorities } from '@pawl/core/internal'
import Fastify from 'fastify'
import { describe, expect, test } from 'vitest'
import { NameHasher } from '../../packages/core/src/announce/name-hasher.js'
import { unreadableErrors } from '../support/unreadable-errors.js'

const CARD = '4242 4242 4242 4242'

class PaymentError extends Error {
  override readonly name = 'PaymentError'
}

/** An error like those of HTTP clients and of pg, with the request, its headers, and the values of a row. */
const wordy = (): Error =>
  Object.assign(new PaymentError(`card ${CARD} refused`, { cause: new Error('sent Bearer abc.def') }), {
    code: 'card_refused',
    statusCode: 402,
    constraint: 'users_email_key',
    detail: 'Key (email)=(ann@example.com) already exists.',
    config: { headers: { authorization: 'Bearer topsecret' }, data: 'pin=1234' },
    request: { socket: {} },
  })

/** What a logger of Fastify writes. */
function logged(error: unknown): Record<string, unknown> {
  let line = ''
  const { log } = Fastify({ logger: { stream: { write: (text: string) => void (line += text) } } })
  log.error({ err: error }, 'failed')
  return (JSON.parse(line) as { err: Record<string, unknown> }).err
}

describe('safeError', () => {
  test('says what an error is, and nothing of what is attached to it', () => {
    const err = logged(safeError(wordy()))
    expect(err).toMatchObject({
      type: 'PaymentError',
      code: 'card_refused',
      statusCode: 402,
      constraint: 'users_email_key',
      stack: expect.stringContaining('safe-error.test.ts') as string,
    })
    expect(err['message']).toBe('card [number] refused: sent Bearer [token]')
    for (const text of [JSON.stringify(err), inspect(safeError(wordy()), { depth: 9, showHidden: true })])
      expect(text).not.toMatch(/4242 4242|abc\.def|topsecret|ann@example|pin=/)
    // The same holds for an error without it.
    expect(JSON.stringify(logged(wordy()))).toMatch(/topsecret/)
  })

  test('takes out of every text what the application says as well, and keeps none that it cannot redact', () => {
    const error = new PaymentError('for Ann', { cause: new Error('of Ann') })
    const copy = safeError(error, (text) => text.replaceAll('Ann', '[name]'))
    expect(copy.message).toBe('for [name]')
    expect(inspect(copy, { depth: 9, showHidden: true })).not.toContain('Ann')
    for (const more of [() => null as never, () => JSON.parse('{') as never])
      expect(inspect(safeError(error, more), { depth: 9, showHidden: true })).not.toContain('Ann')
  })

  test.each([
    ['a string', `card ${CARD}`, 'card [number]'],
    ['null', null, 'null'],
    ['an object', { authorization: 'Bearer x' }, 'non-error thrown: object'],
    [
      'several that failed together',
      new AggregateError([new Error('a sk_live_1'), new Error('b')], ''),
      'a [key]; b',
    ],
    ['a URL', new Error('postgresql://me:p@ss:word@db/x away'), 'postgresql://[credentials]@db/x away'],
    ['a URL without credentials', new Error('https://db:1/x@y away'), 'https://db:1/x@y away'],
  ])('of %s', (_, thrown, message) => expect(safeError(thrown).message).toBe(message))

  test.each(Object.entries(unreadableErrors()))('of an error %s', (_, thrown) => {
    const copy = safeError(thrown)
    expect(copy).toBeInstanceOf(Error)
    for (const text of [copy.message, copy.name]) expect(text).toEqual(expect.any(String))
    // Logging it does not throw either.
    expect(logged(copy)).toMatchObject({ message: expect.any(String) as string })
    expect(inspect(copy, { depth: 9, showHidden: true })).toEqual(expect.any(String))
  })

  test('reading a chain of causes that leads back to its start ends, and endless text is cut', () => {
    const error = new Error('x'.repeat(100_000))
    error.cause = error
    const copy = safeError(error)
    expect(copy.message).toHaveLength(2_000)
    expect(copy.stack?.length).toBeLessThanOrEqual(8_000)
    let [depth, cause] = [0, copy.cause]
    while (cause instanceof Error) [depth, cause] = [depth + 1, cause.cause]
    expect(depth).toBe(5)
  })
})

test.each([
  'a.'.repeat(5_000),
  'a://'.repeat(5_000),
  '://'.repeat(5_000),
  `a://${'b:'.repeat(5_000)}`,
  'a:/'.repeat(5_000),
])('searching URLs in %#. hostile text reads no part of it twice', (text) => {
  let looked = 0
  let last = 0
  for (const { start, end } of urlAuthorities(text)) {
    expect(start).toBeGreaterThanOrEqual(last)
    looked += end - start
    last = end
  }
  expect(looked).toBeLessThanOrEqual(text.length)
})

test('names are hashed with HMAC-SHA-256, with a secret of any length', () => {
  for (const secret of ['s'.repeat(32), 'é'.repeat(64), 'k'.repeat(300)]) {
    const expected = createHmac('sha256', secret)
      .update(JSON.stringify(['s', 'k']))
      .digest('hex')
    expect(new NameHasher(secret).hash('s', 'k')).toBe(expected.slice(0, 16))
  }
  const [one, other] = [new NameHasher(null), new NameHasher(null)]
  // All engines of a process return the same hash.
  expect(one.hash('s')).toBe(other.hash('s'))
})
