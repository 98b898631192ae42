import { expect, test } from 'vitest'
import { classifyError, isAmbiguous } from '../../packages/core/src/runner/classify-error.js'

const failed = (members: object) => Object.assign(new Error('failed'), members)

test.each([
  ['a status of fetch wrappers', failed({ status: 503 })],
  ['a status of got', failed({ response: { statusCode: 500 } })],
  ['a status of axios', failed({ response: { status: 429 } })],
  ['a status of the AWS SDK', failed({ $metadata: { httpStatusCode: 500 } })],
  ['UNAVAILABLE of gRPC', failed({ code: 14 })],
  ['DEADLINE_EXCEEDED of gRPC', failed({ code: 4 })],
  ['fetch without a cause', new TypeError('fetch failed')],
  ['any of them as a cause', new Error('wrapped', { cause: failed({ response: { status: 502 } }) })],
])('%s is transient: tried again, and never final', (_, error) => {
  expect(classifyError(error)).toBe('transient')
  expect(isAmbiguous(error)).toBe(true)
})

test.each([
  ['a bug', new TypeError("Cannot read properties of undefined (reading 'id')")],
  ['an answer that cannot be parsed', new SyntaxError('Unexpected end of JSON input')],
])('%s is counted as unknown, and never final either', (_, error) => {
  expect(classifyError(error)).toBe('unknown')
  expect(isAmbiguous(error)).toBe(true)
})

test.each([
  ['a declined card', failed({ status: 402, code: 'card_declined' })],
  ['a refusal of axios', failed({ response: { status: 422 } })],
  ['a refusal of gRPC', failed({ code: 9 })],
  ["the application's own error", new Error('no such customer')],
])('%s is an answer', (_, error) => {
  expect(classifyError(error)).toBe('unknown')
  expect(isAmbiguous(error)).toBe(false)
})
