import { aesGcm, PawlError } from '@pawl/core'
import { describe, expect, test } from 'vitest'

const key = (fill: number, length = 32) => Buffer.alloc(length, fill)
const at = { scope: 's', row: 'r', column: 'input' }
const one = aesGcm({ keys: { k1: key(1) } })

function codeOf(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return (error as PawlError).code
  }
  return 'nothing was thrown'
}

describe('its options', () => {
  test.each([
    ['no keys', {}, 'keys takes an object of one key or more, by id'],
    ['an empty list of keys', { keys: {} }, 'keys takes an object of one key or more, by id'],
    [
      'a short key, which is not told',
      { keys: { k1: key(1, 16) } },
      'keys.k1 is 16 bytes; it takes a Buffer of 32',
    ],
    ['a text', { keys: { k1: 'hunter2' } }, 'keys.k1 is of type string'],
    [
      'an id with a colon',
      { keys: { 'k:1': key(1) } },
      "an id in keys takes 1 to 32 letters, digits, '.', '_' or '-'",
    ],
    [
      'several without a current one',
      { keys: { a: key(1), b: key(2) } },
      'current takes the id of one of the keys: a, b',
    ],
    ['a current one that is not there', { keys: { a: key(1) }, current: 'b' }, 'one of the keys: a.'],
    ['a key in place of the options', 'c0ffee'.repeat(10), 'aesGcm takes { keys }'],
    [
      'a key in place of its id',
      { keys: { a: key(1) }, current: 'c0ffee'.repeat(10) },
      'one of the keys: a.',
    ],
    ['a switch that is none', { keys: { a: key(1) }, perScope: 1 }, 'perScope is 1; it takes true or false'],
    ['an unknown option', { keys: { a: key(1) }, key: 'a' }, "unknown option 'key'"],
  ])('%s', (_, options, message) => {
    expect(() => aesGcm(options as never)).toThrow(message)
    expect(() => aesGcm(options as never)).not.toThrow('c0ffee')
    expect(codeOf(() => aesGcm(options as never))).toBe('PAWL_INVALID_OPTION')
  })
})

test('what is sealed opens in its place, and in no other', () => {
  for (const size of [0, 1, 15, 16, 17, 1_048_576]) {
    const plain = Buffer.alloc(size, 7)
    const sealed = one.seal(plain, at)
    expect(Buffer.from(one.open(sealed, at))).toEqual(plain)
    for (const other of [{ scope: 't' }, { row: 'q' }, { column: 'state' }, { scope: 's"', row: '' }])
      expect(codeOf(() => one.open(sealed, { ...at, ...other }))).toBe('PAWL_SEALED')
  }
})

test('no bit can be changed, and nothing cut or added', () => {
  const { keyId, bytes } = one.seal(Buffer.from('secret'), at)
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const changed = Uint8Array.from(bytes)
    changed[bit >> 3]! ^= 1 << (bit & 7)
    expect(codeOf(() => one.open({ keyId, bytes: changed }, at))).toBe('PAWL_SEALED')
  }
  for (let length = 0; length < bytes.length; length++)
    expect(codeOf(() => one.open({ keyId, bytes: bytes.subarray(0, length) }, at))).toBe('PAWL_SEALED')
  expect(codeOf(() => one.open({ keyId, bytes: Buffer.concat([bytes, key(0, 1)]) }, at))).toBe('PAWL_SEALED')
})

test('nonces do not repeat', () => {
  const nonces = Array.from({ length: 10_000 }, () =>
    Buffer.from(one.seal(key(0, 1), at).bytes.subarray(0, 12)).toString('hex'),
  )
  expect(new Set(nonces).size).toBe(nonces.length)
})

test('a key is chosen by its id', () => {
  const both = aesGcm({ keys: { k1: key(1), k2: key(2) }, current: 'k2' })
  const [older, newer] = [one.seal(key(9), at), both.seal(key(9), at)]
  expect(newer.keyId).toBe('k2')
  expect(Buffer.from(both.open(older, at))).toEqual(key(9))
  expect(codeOf(() => one.open(newer, at))).toBe('PAWL_KEY_MISSING')
  // The same key under another id is another key.
  const renamed = aesGcm({ keys: { k3: key(1) } })
  expect(codeOf(() => renamed.open({ ...older, keyId: 'k3' }, at))).toBe('PAWL_SEALED')
  expect(codeOf(() => aesGcm({ keys: { k1: key(2) } }).open(older, at))).toBe('PAWL_SEALED')
})

test('a scope may have a key of its own', () => {
  const perScope = aesGcm({ keys: { k1: key(1) }, perScope: true })
  const sealed = perScope.seal(key(9), at)
  expect(Buffer.from(perScope.open(sealed, at))).toEqual(key(9))
  expect(codeOf(() => one.open(sealed, at))).toBe('PAWL_SEALED')
})

test('a buffer that is cleared afterwards does not change the key', () => {
  const given = key(1)
  const keyed = aesGcm({ keys: { k1: given }, perScope: true })
  const sealed = keyed.seal(key(9), at)
  given.fill(0)
  expect(Buffer.from(keyed.open(sealed, at))).toEqual(key(9))
  expect(aesGcm({ keys: { k1: key(1) } }).fingerprintSecret(null)).toEqual(keyed.fingerprintSecret('k1'))
  expect(keyed.fingerprintSecret('k2')).toBeNull()
})
