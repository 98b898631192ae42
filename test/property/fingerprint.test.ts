import { createHash } from 'node:crypto'
import { type JsonValue, PawlError } from '@pawl/core'
import { fingerprintOf } from '@pawl/core/internal'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { assertProperty } from './support/assert-property.js'
import { canonicalForm } from './support/canonical-form.js'
import { changeJson } from './support/change-json.js'
import { choices, chooser, jsonValue } from './support/json.js'
import { spellJson } from './support/spell-json.js'

/** Levels of nesting that are accepted: `MAX_JSON_DEPTH`, which clients can rely on. */
const DEEPEST = 256

const hex = (value: JsonValue | Uint8Array) => fingerprintOf(value).toString('hex')
const parsed = (text: string) => JSON.parse(text) as JsonValue
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

// Shows I12.
test('the fingerprint of any JSON is the hash of its canonical form', () =>
  assertProperty(
    fc.property(jsonValue, (value) => {
      expect(hex(value)).toBe(sha256(`json:${canonicalForm(value)}`))
    }),
  ))

test('the same JSON has the same fingerprint, however it is written', () =>
  assertProperty(
    fc.property(jsonValue, choices, choices, (value, one, other) => {
      const spelt = spellJson(value, chooser(one))
      expect(canonicalForm(parsed(spelt))).toBe(canonicalForm(value))
      expect(hex(parsed(spelt))).toBe(hex(value))
      expect(hex(parsed(spellJson(value, chooser(other))))).toBe(hex(parsed(spelt)))
    }),
  ))

test('two values have the same fingerprint exactly when they have the same canonical form', () =>
  assertProperty(
    fc.property(jsonValue, jsonValue, choices, (value, unrelated, given) => {
      const choose = chooser(given)
      const changed = changeJson(value, choose)
      for (const other of [changed, unrelated, parsed(spellJson(changed, choose))])
        expect(hex(value) === hex(other)).toBe(canonicalForm(value) === canonicalForm(other))
    }),
  ))

test('bytes never have the fingerprint of JSON, and different bytes have different fingerprints', () =>
  assertProperty(
    fc.property(jsonValue, fc.uint8Array(), fc.uint8Array(), (value, one, other) => {
      const text = canonicalForm(value)
      for (const bytes of [Buffer.from(text), Buffer.from(`json:${text}`), one])
        expect(hex(bytes)).not.toBe(hex(value))
      expect(hex(one) === hex(other)).toBe(Buffer.compare(one, other) === 0)
      expect(hex(Uint8Array.from(one))).toBe(hex(Buffer.from(one)))
    }),
  ))

test(`nesting is refused beyond ${DEEPEST} levels, and not before`, () =>
  assertProperty(
    fc.property(
      fc.oneof(fc.integer({ min: DEEPEST - 2, max: DEEPEST + 2 }), fc.nat(3 * DEEPEST)),
      choices,
      (depth, given) => {
        const choose = chooser(given)
        let value: JsonValue = 1
        for (let level = 0; level < depth; level++) value = choose(2) === 0 ? [value] : { a: value }
        if (depth <= DEEPEST) expect(hex(value)).toBe(sha256(`json:${canonicalForm(value)}`))
        else expect(() => hex(value)).toThrow(expect.objectContaining({ code: 'PAWL_NOT_JSON' }))
      },
    ),
  ))

const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withNullPrototype: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
  key: fc.oneof(fc.constantFrom('__proto__', 'toJSON', 'then', 'constructor'), fc.string({ maxLength: 3 })),
})

test('any value is either refused as not JSON, or is equal to itself after a round trip through JSON', () =>
  assertProperty(
    fc.property(anything, (value) => {
      let fingerprint: string
      try {
        fingerprint = hex(value as JsonValue)
      } catch (error) {
        expect(error).toBeInstanceOf(PawlError)
        expect(error).toMatchObject({ code: 'PAWL_NOT_JSON' })
        return
      }
      if (!(value instanceof Uint8Array)) expect(fingerprint).toBe(hex(parsed(JSON.stringify(value))))
    }),
  ))
