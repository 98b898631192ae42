import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasCardNumber, hasEmail, hasPhoneNumber } from '../../packages/core/src/request/suspicions.js'
import { assertProperty } from './support/assert-property.js'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const NANOID = 'useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict'
const letters = (alphabet: string, length: number) =>
  fc
    .array(fc.constantFrom(...alphabet.split('')), { minLength: length, maxLength: length })
    .map((all) => all.join(''))
const bytes = (least: number, most: number) =>
  fc.uint8Array({ minLength: least, maxLength: most }).map((array) => Buffer.from(array))

/** Ids as people make them. Of hex, at least 20 digits: 16 may all be decimal, and are then a number like any other. */
const IDS = {
  uuid: fc.uuid(),
  'uuid of decimal digits': letters('0123456789', 32).map((all) =>
    all.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
  ),
  'two uuids': fc.tuple(fc.uuid(), fc.uuid()).map((both) => both.join('-')),
  ulid: letters(CROCKFORD, 26),
  'ulid that begins with a time': fc
    .tuple(fc.constant('01'), letters(CROCKFORD, 24))
    .map((both) => both.join('')),
  nanoid: letters(NANOID, 21),
  'short nanoid': letters(NANOID, 12),
  hex: bytes(10, 64).map((of) => of.toString('hex')),
  base64: bytes(16, 64).map((of) => of.toString('base64')),
  base64url: bytes(16, 64).map((of) => of.toString('base64url')),
}

describe.each(Object.entries(IDS))('a random %s', (_, id) => {
  test.each(['', 'order-', 'generated-', 'POST /rides \u2192 '])(
    `is never suspect after %j`,
    async (prefix) => {
      await assertProperty(
        fc.property(id, (text) => {
          expect(hasCardNumber(prefix + text)).toBe(false)
          expect(hasEmail(prefix + text)).toBe(false)
          expect(hasPhoneNumber(prefix + text)).toBe(false)
        }),
      )
    },
  )
})
