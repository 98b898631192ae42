import { providerKeyOf } from '@pawl/core/internal'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { assertProperty } from './support/assert-property.js'
import { character } from './support/text.js'

interface Parts {
  readonly texts: readonly string[]
  readonly epoch: number
  readonly undone: number
}

/** Namespace, scope, key, fingerprint, pipeline, effect. */
const TEXTS = 6

/** Text full of what could separate parts or prefix them. The engine accepts neither NUL nor halves of surrogate pairs. */
const text = fc.oneof(
  fc.string({
    unit: fc.constantFrom('0', '1', '2', ':', '|', '/', ',', '\n', 'a', 'é', '\u{1f6b2}'),
    maxLength: 8,
  }),
  fc.string({ unit: character, maxLength: 8 }),
  fc.string({ maxLength: 255 }),
)

const parts: fc.Arbitrary<Parts> = fc.record({
  texts: fc.array(text, { minLength: TEXTS, maxLength: TEXTS }),
  epoch: fc.oneof(fc.nat(12), fc.maxSafeNat()),
  undone: fc.oneof(fc.constant(0), fc.nat(12)),
})

function keyOf({ texts, epoch: effectEpoch, undone: undoneBefore }: Parts): string {
  const [namespace = '', scope = '', key = '', fingerprint = '', pipeline = '', effect = ''] = texts
  return providerKeyOf(namespace, { scope, key, fingerprint, pipeline, effectEpoch, undoneBefore }, effect)
}

const same = (one: Parts, other: Parts) => JSON.stringify(one) === JSON.stringify(other)

// Shows I8.
test('a provider key depends only on its parts, and has a form that providers accept', () =>
  assertProperty(
    fc.property(parts, (of) => {
      const key = keyOf(of)
      expect(key).toMatch(/^pawl_[\w-]{43}$/)
      expect(keyOf(structuredClone(of))).toBe(key)
    }),
  ))

test('nothing else of the row counts, because a lost commit hands an id out twice, and a take-over raises the fence', () =>
  assertProperty(
    fc.property(
      parts,
      fc.uuid(),
      fc.nat(),
      fc.string(),
      ({ texts, epoch, undone }, id, fence, recoveryPoint) => {
        const [namespace = '', scope = '', key = '', fingerprint = '', pipeline = '', effect = ''] = texts
        const row = { scope, key, fingerprint, pipeline, effectEpoch: epoch, undoneBefore: undone }
        const whole = { id, fence, recoveryPoint, attempts: fence, holder: id, version: fence, ...row }
        expect(providerKeyOf(namespace, whole, effect)).toBe(providerKeyOf(namespace, row, effect))
      },
    ),
  ))

test('two provider keys are equal exactly when all their parts are', () =>
  assertProperty(
    fc.property(parts, parts, (one, other) => {
      expect(keyOf(one) === keyOf(other)).toBe(same(one, other))
    }),
  ))

test('another namespace, scope, key, fingerprint, pipeline, effect, epoch or number of undone effects makes another provider key', () =>
  assertProperty(
    fc.property(parts, text, fc.nat(), (of, other, otherNumber) => {
      const changed = of.texts.map((_, index) => ({ ...of, texts: of.texts.with(index, other) }))
      for (const one of [...changed, { ...of, epoch: otherNumber }, { ...of, undone: otherNumber }])
        expect(keyOf(one) === keyOf(of)).toBe(same(one, of))
    }),
  ))

/** Words to be cut into parts, at least one for each. */
const WORDS = 2 * TEXTS
const words = fc.array(fc.constantFrom('', 'a', 'bc', '1', '12'), { minLength: WORDS, maxLength: WORDS })
const glue = fc.constantFrom('', ':', '|', '/', ',', '\n', '1:', '2:')
const cuts = fc.subarray(
  Array.from({ length: WORDS - 1 }, (_, index) => index + 1),
  { minLength: TEXTS - 1, maxLength: TEXTS - 1 },
)

test('text that moves from one part to another makes another provider key', () =>
  assertProperty(
    fc.property(words, glue, cuts, cuts, fc.nat(12), (list, between, some, others, epoch) => {
      // The same words in the same order are cut into parts in two ways.
      const cut = (at: readonly number[]): Parts => {
        const ends = [...at, WORDS]
        const texts = ends.map((end, index) => list.slice(ends[index - 1] ?? 0, end).join(between))
        return { texts, epoch, undone: 0 }
      }
      const [one, other] = [cut(some), cut(others)]
      expect(keyOf(one) === keyOf(other)).toBe(same(one, other))
    }),
  ))
