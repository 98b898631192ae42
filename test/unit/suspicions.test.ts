import { randomBytes, randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { hasCardNumber, hasEmail, hasPhoneNumber } from '../../packages/core/src/request/suspicions.js'

/** Numbers that networks and providers publish for tests. */
const CARDS = [
  '4111111111111111',
  '4242424242424242',
  '4222222222222',
  '5555555555554444',
  '2223003122003222',
  '378282246310005',
  '371449635398431',
  '6011111111111117',
  '6011000990139424',
  '3056930009020004',
  '36227206271667',
  '38520000023237',
  '6555900000604105',
  '3566002020360505',
  '3530111333300000',
  '6200000000000005',
  '6205500000000000004',
  '6759649826438453',
  '5019717010103742',
  '2201382000000013',
]

test.each([
  ...CARDS,
  '4111 1111 1111 1111',
  '4111-1111-1111-1111',
  '4111.1111.1111.1111',
  '4111\u20131111\u20131111\u20131111',
  '3782-822463-10005',
  '3622-720627-1667',
  'charge-4111111111111111',
  'charge_4111111111111111_2',
  '2026-11-18-4111-1111-1111-1111-1',
  '7-4111111111111111-1',
  'POST /rides \u2192 4111111111111111',
  '"4111111111111111"',
])('%j holds a card number', (text) => {
  expect(hasCardNumber(text)).toBe(true)
})

test.each([
  ['the wrong check digit', '4111111111111112'],
  ['nothing but zeros', '0000000000000000'],
  ['no prefix of a network, though the check digit is right', '1234567812345670'],
  ['a length that the network does not have', '41111111111111'],
  ['a time in milliseconds', '1794888681003'],
  ['a time stamp', '20261118123045'],
  ['a time stamp with milliseconds', '2026111812304517'],
  ['a random fraction', '0.4111111111111111'],
  ['a random fraction', '1794888681003-0.4111111111111111'],
  ['twenty digits', '41111111111111111110'],
  ['digits that letters touch', 'a4111111111111111'],
  ['digits that letters touch', '4111111111111111z'],
  ['groups that no card is printed in', '41-1111-1111-1111-11'],
  ['groups that no card is printed in', '4-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1'],
  ['two separators', '4111--1111--1111--1111'],
  ['a UUID', '41111111-1111-4111-8111-111111111111'],
])('%s is no card number: %s', (_, text) => {
  expect(hasCardNumber(text)).toBe(false)
})

test.each([
  'ann@example.com',
  'order-ann.b+c@mail.example.co.uk-7',
  '<ann@example.com>',
  'j\u00f6rg@m\u00fcller.de',
])('%j holds an e-mail address', (text) => {
  expect(hasEmail(text)).toBe(true)
})

test.each(['@12', 'ann@host', '@example.com', 'a @b.com', 'a@.com', 'a@b.1', 'pkg@1.2.3'])(
  '%j holds no e-mail address',
  (text) => {
    expect(hasEmail(text)).toBe(false)
  },
)

test.each([
  '+493012345678',
  '+49 30 1234-5678',
  '+1 (555) 010-9999',
  '(555) 010-9999',
  '555-010-9999',
  'call:+4915112345678',
])('%j holds a phone number', (text) => {
  expect(hasPhoneNumber(text)).toBe(true)
})

test.each([
  '5550109999',
  '0493012345678',
  '+1',
  'a+12345678',
  '+12345678a',
  '2026-11-18',
  '112-1234567-1234567',
])('%j holds no phone number', (text) => {
  expect(hasPhoneNumber(text)).toBe(false)
})

const orderNumber = (prefix: string, length: number) =>
  prefix + Array.from({ length: length - prefix.length }, () => randomInt(10)).join('')

/** The share of random order numbers that are taken for card numbers. */
function share(prefix: string, length: number): number {
  const all = Array.from({ length: 2_000 }, () => hasCardNumber(orderNumber(prefix, length)))
  return all.filter(Boolean).length / all.length
}

test('of random order numbers, only those that begin like a card are ever taken for one', () => {
  for (const length of [8, 10, 12]) expect(share('', length)).toBe(0)
  for (const prefix of ['0', '1', '20', '7', '90']) expect(share(prefix, 16)).toBe(0)
  // As docs/guide.md says: one in ten.
  expect(share('4', 16)).toBeGreaterThan(0.05)
  expect(share('4', 16)).toBeLessThan(0.15)
})

function timeOf(text: string): number {
  const start = performance.now()
  hasCardNumber(text)
  hasEmail(text)
  hasPhoneNumber(text)
  return performance.now() - start
}

test('a long text takes linear time, whatever is in it', () => {
  const hostile = [
    '4111 ',
    '1-',
    '1',
    '+1 ',
    '+',
    '@',
    'a@a.',
    'a@a',
    '(555) ',
    '555-010-',
    '. ',
    '41111111111111111-',
  ]
  for (const part of [...hostile, randomBytes(8).toString('latin1')]) {
    const text = part.repeat(20_000)
    // It takes a tenth of a second; on a busy machine, a second. Quadratic, it would take a hundred.
    expect(timeOf(text), part).toBeLessThan(10_000)
    expect(timeOf(`${text}x`), part).toBeLessThan(10_000)
  }
})
