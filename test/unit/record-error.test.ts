import { expect, test } from 'vitest'
import { recordError } from '../../packages/core/src/run/record-error.js'
import { unreadableErrors } from '../support/unreadable-errors.js'

test.each(Object.entries(unreadableErrors()))('an error %s still has a text to store', (_, thrown) => {
  const recorded = recordError(thrown)
  expect(recorded).toEqual(expect.any(String))
  expect(recorded).not.toBe('')
})

test.each([
  ['its name, code and message', Object.assign(new TypeError('no'), { code: 'E1' }), 'TypeError [E1]: no'],
  ['its cause', new Error('no', { cause: new RangeError('why') }), 'Error: no (cause: RangeError: why)'],
  [
    'a message that is no text',
    Object.assign(new Error(), { message: { pin: 1 } }),
    'Error: (a message of type object)',
  ],
  ['a text', 'no', 'no'],
  ['anything else', { pin: 1 }, 'non-error thrown: object'],
  ['no NUL, nor half a character', new Error('a\0b\uD800c'), 'Error: abc'],
  ['no secret that a NUL had kept apart', new Error('4242\0 4242 4242 4242'), 'Error: [number]'],
])('the stored text is %s', (_, thrown, recorded) => expect(recordError(thrown)).toBe(recorded))

test('of an endless message, the beginning is stored', () => {
  expect(recordError(new Error('x'.repeat(5_000_000)))).toHaveLength(2_000)
})

const failing = (): never => {
  throw new Error('no')
}

test('what the application hides is taken out as well, and a function that fails leaves nothing', () => {
  const error = new Error('order 4711 of Ann')
  expect(recordError(error, (text) => text.replace('Ann', '[name]'))).toBe('Error: order 4711 of [name]')
  for (const more of [failing, () => 42 as never])
    expect(recordError(error, more)).toBe('an error that the option redact could not redact')
  expect(recordError(error, (text) => `${text}\0${'x'.repeat(9_000)}`)).toHaveLength(1_999)
})
