import { PawlError, type PawlErrorCode } from '@pawl/core'
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { classifyError } from '../../packages/core/src/run/classify-error.js'

/** An error as node-postgres throws it. */
function serverError(code: string): Error {
  return Object.assign(new pg.DatabaseError('from the server', 1, 'error'), { code, severity: 'ERROR' })
}
const errorWith = (members: object) => Object.assign(new Error('x'), members)
const swallowed = (cause: unknown) => new PawlError('PAWL_TRANSACTION_ABORTED', 'x', { cause })
const refused = (cause: unknown) => new PawlError('PAWL_AMBIGUOUS_RESPONSE', 'x', { cause })
const fetchFailed = (cause: unknown) => new TypeError('fetch failed', { cause })

describe('conflict: the transaction did not commit, and can be tried again at once', () => {
  test.each(['40001', '40P01', '55P03'])('SQLSTATE %s', (code) => {
    expect(classifyError(serverError(code))).toBe('conflict')
  })
  test.each(['57P01', '57P02', '57P03', '57P05', '25P03', '25P04'])(
    'SQLSTATE %s, with which the session ends',
    (code) => expect(classifyError(serverError(code))).toBe('conflict'),
  )
  test('a lost connection', () => {
    expect(classifyError(new PawlError('PAWL_CONNECTION_LOST', 'x'))).toBe('conflict')
  })
  test('a swallowed error is classified as the error itself', () => {
    expect(classifyError(swallowed(serverError('40001')))).toBe('conflict')
    expect(classifyError(swallowed(serverError('57014')))).toBe('transient')
    expect(classifyError(swallowed(serverError('23505')))).toBe('unknown')
    expect(classifyError(swallowed(null))).toBe('unknown')
  })
})

test('an answer that was refused as ambiguous is classified as its error', () => {
  expect(classifyError(refused(errorWith({ code: 'ECONNRESET' })))).toBe('transient')
  expect(classifyError(refused(errorWith({ status: 409 })))).toBe('transient')
  expect(classifyError(refused(new Error('no such customer')))).toBe('unknown')
})

describe('transient: it may work later, and nothing is known of the outcome', () => {
  test.each(['57014', '25006', '55006', '53300', '53100', '53200'])('SQLSTATE %s', (code) => {
    expect(classifyError(serverError(code))).toBe('transient')
  })
  test.each<PawlErrorCode>(['PAWL_NO_CONNECTION', 'PAWL_CALL_TIMEOUT', 'PAWL_CLOSING', 'PAWL_LEASE_LOST'])(
    '%s',
    (code) => expect(classifyError(new PawlError(code, 'x'))).toBe('transient'),
  )
  test.each(['ECONNRESET', 'ECONNREFUSED', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH'])(
    'a socket that says %s, also behind fetch',
    (code) => {
      expect(classifyError(errorWith({ code }))).toBe('transient')
      expect(classifyError(fetchFailed(errorWith({ code })))).toBe('transient')
      expect(classifyError(fetchFailed(fetchFailed(errorWith({ code }))))).toBe('transient')
    },
  )
  test('aborts and time-outs as the platform throws them', () => {
    expect(classifyError(AbortSignal.abort().reason)).toBe('transient')
    expect(classifyError(new DOMException('x', 'TimeoutError'))).toBe('transient')
    expect(classifyError(errorWith({ name: 'HeadersTimeoutError', code: 'UND_ERR_HEADERS_TIMEOUT' }))).toBe(
      'transient',
    )
    expect(classifyError(fetchFailed(errorWith({ name: 'SocketError', code: 'UND_ERR_SOCKET' })))).toBe(
      'transient',
    )
  })
  test.each([408, 425, 429, 500, 502, 503, 504])('an SDK that met HTTP %s', (status) => {
    expect(classifyError(errorWith({ status }))).toBe('transient')
    expect(classifyError(errorWith({ statusCode: status }))).toBe('transient')
  })
})

describe('unknown: everything else', () => {
  test.each(['23505', '23503', '22P02', '42P01', '42601', 'P0001'])('SQLSTATE %s', (code) => {
    expect(classifyError(serverError(code))).toBe('unknown')
  })
  test.each([400, 401, 402, 404, 409, 422])('an SDK that met HTTP %s', (status) => {
    expect(classifyError(errorWith({ status }))).toBe('unknown')
  })
  test.each<PawlErrorCode>([
    'PAWL_NOT_JSON',
    'PAWL_TOO_LARGE',
    'PAWL_INVALID_RESULT',
    'PAWL_FOREIGN_IN_TRANSACTION',
    'PAWL_SECOND_FOREIGN_REQUEST',
    'PAWL_NESTED_CHECKOUT',
    'PAWL_TRANSACTION_ENDED',
    'PAWL_STORED_INPUT_REJECTED',
  ])('%s', (code) => expect(classifyError(new PawlError(code, 'x'))).toBe('unknown'))
  test.each([null, undefined, 'text', 500, Symbol('x'), {}, [], () => 1, { status: '500' }])(
    '%o',
    (thrown) => {
      expect(classifyError(thrown)).toBe('unknown')
    },
  )
  test('a mistake in the code', () =>
    expect(classifyError(new TypeError('x is not a function'))).toBe('unknown'))
  test('an application code that looks like an SQLSTATE', () => {
    expect(classifyError(errorWith({ code: '40001' }))).toBe('unknown')
  })
})

test('reading causes that form a circle ends', () => {
  const one = new Error('one')
  const other = new Error('other', { cause: one })
  one.cause = other
  expect(classifyError(one)).toBe('unknown')
  const self = new Error('self')
  self.cause = self
  expect(classifyError(self)).toBe('unknown')
})
