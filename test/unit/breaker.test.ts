import { StoreAwayError } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { NoConnectionError } from '../../packages/core/src/driver/no-connection.js'
import { Silence } from '../../packages/core/src/driver/silence.js'
import { Spread } from '../../packages/core/src/driver/spread.js'
import { PawlError } from '../../packages/core/src/errors.js'
import { Breaker } from '../../packages/core/src/request/breaker.js'
import { hear } from '../support/signals.js'

const OPTIONS = { failures: 3, probeMs: 500 }
const ofServer = (code: string) => Object.assign(new Error(code), { code, severity: 'FATAL' })
const lostBy = (cause: unknown) => new PawlError('PAWL_CONNECTION_LOST', 'lost', { cause })
const away = new NoConnectionError('away', 'refused')
const busy = new NoConnectionError('busy', 'none free')

let now = 1_000
beforeEach(() => void vi.spyOn(performance, 'now').mockImplementation(() => now))
afterEach(() => void vi.restoreAllMocks())

function opened(): Breaker {
  const breaker = new Breaker(OPTIONS, new Spread())
  for (let failure = 0; failure < OPTIONS.failures; failure++) breaker.failed(away)
  return breaker
}

const isLetThrough = (breaker: Breaker) => breaker.refusal() === null

describe('what opens it', () => {
  test.each<[string, unknown, boolean]>([
    ['a server that cannot be reached', away, true],
    ['a connection that broke, again and again', lostBy(new Error('ECONNRESET')), true],
    ['a server that does not answer', lostBy(new Silence(1)), true],
    ['a server that shuts down', ofServer('57P01'), true],
    ['a server that has crashed', lostBy(ofServer('57P02')), true],
    ['a server that is starting', ofServer('57P03'), true],
    ['a pooler without a server', ofServer('08P01'), true],
    ['a pool that others keep busy', busy, false],
    ['a connection that is of no use', new NoConnectionError('unusable', 'in a transaction'), false],
    ['a lock time-out', ofServer('55P03'), false],
    ['a statement time-out', ofServer('57014'), false],
    ['a server that is read-only after a failover', ofServer('25006'), false],
    ['a server that has too many connections', ofServer('53300'), false],
    ['a password that is refused', ofServer('28P01'), false],
    ['a prepared statement that is gone', lostBy(ofServer('26000')), false],
    ['whatever else is thrown', new Error('a bug'), false],
  ])('%s', (_, error, opens) => {
    const breaker = new Breaker(OPTIONS, new Spread())
    for (let failure = 0; failure < OPTIONS.failures; failure++) {
      expect(isLetThrough(breaker)).toBe(true)
      breaker.failed(error)
    }
    expect(isLetThrough(breaker)).toBe(!opens)
  })

  test('failures in a row, not all of them', () => {
    const breaker = new Breaker(OPTIONS, new Spread())
    for (let failure = 0; failure < 10; failure++) {
      breaker.failed(away)
      breaker.failed(away)
      breaker.heard(null)
    }
    expect(isLetThrough(breaker)).toBe(true)
  })

  test('not the connections of a coordinator to its workers', () => {
    const spread = new Spread()
    spread.learn('over_servers')
    const breaker = new Breaker(OPTIONS, spread)
    for (let failure = 0; failure < OPTIONS.failures; failure++) breaker.failed(ofServer('08006'))
    expect(isLetThrough(breaker)).toBe(true)
  })

  test('nothing, where it is off', () => {
    const breaker = new Breaker(null, new Spread())
    for (let failure = 0; failure < 100; failure++) breaker.failed(away)
    expect(isLetThrough(breaker)).toBe(true)
  })
})

describe('while it is open', () => {
  test('one request is let through in each interval, also if the one before it hangs', () => {
    const breaker = opened()
    const letThrough: number[] = []
    for (const start = now; now < start + 2_000; now += 10)
      if (isLetThrough(breaker)) letThrough.push(now - start)
    expect(letThrough).toEqual([500, 1_000, 1_500])
  })

  test('the others are told when the next one may look', () => {
    const breaker = opened()
    now += 100.5
    const refusal = breaker.refusal()
    expect(refusal).toBeInstanceOf(StoreAwayError)
    expect(refusal).toMatchObject({ code: 'PAWL_STORE_AWAY', retryAfterMs: 400, cause: away })
  })

  test('failures of those that look leave it open, and do not put off the next look', () => {
    const breaker = opened()
    now += 500
    expect(isLetThrough(breaker)).toBe(true)
    now += 400
    breaker.failed(away)
    now += 100
    expect(isLetThrough(breaker)).toBe(true)
  })
})

describe('what closes it', () => {
  test.each<[string, unknown]>([
    ['an answer', null],
    ['a server that refuses what it is asked', ofServer('42P01')],
  ])('%s, to whichever session', (_, error) => {
    const breaker = opened()
    breaker.heard(error)
    expect(isLetThrough(breaker)).toBe(true)
    breaker.failed(away)
    expect(isLetThrough(breaker)).toBe(true)
  })

  test.each<[string, unknown]>([
    ['a broken connection', new Error('Connection terminated unexpectedly')],
    ['a server that is still starting', ofServer('57P03')],
  ])('not %s', (_, error) => {
    const breaker = opened()
    breaker.heard(error)
    expect(isLetThrough(breaker)).toBe(false)
  })

  test('a look that meets a read-only server', () => {
    const breaker = opened()
    now += 500
    expect(isLetThrough(breaker)).toBe(true)
    breaker.failed(ofServer('25006'))
    expect(isLetThrough(breaker)).toBe(true)
    expect(isLetThrough(breaker)).toBe(true)
  })
})

test('it announces what it does, each once', () => {
  const announced = hear('pawl:breaker')
  const breaker = opened()
  breaker.failed(away)
  breaker.refusal()
  breaker.refusal()
  now += 500
  breaker.refusal()
  breaker.heard(null)
  breaker.heard(null)
  expect(announced).toEqual([
    { state: 'opened', failures: 3, refused: 0, openMs: 0, error: away },
    { state: 'half_open', failures: 4, refused: 2, openMs: 500, error: away },
    { state: 'closed', failures: 4, refused: 2, openMs: 500, error: away },
  ])
})
