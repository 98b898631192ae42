import type { JsonValue } from '@pawl/core'
import fc from 'fast-check'
import { character } from './text.js'

/** Names that mean something to JavaScript, or that sort differently by number, code unit, code point or locale. */
const AWKWARD_NAMES = [
  '',
  '__proto__',
  'constructor',
  'prototype',
  'toJSON',
  'then',
  'length',
  '9',
  '10',
  '010',
  'a',
  'B',
  'é',
  'e\u0301',
  '\ufb33',
  '\u{1f6b2}',
  '\ud800',
]

const AWKWARD_NUMBERS = [
  0,
  -0,
  1,
  -1,
  0.1,
  0.1 + 0.2,
  1e21,
  999_999_999_999_999_900_000,
  1e-6,
  1e-7,
  5e-324,
  Number.MAX_VALUE,
  2 ** 53,
  2 ** 53 - 1,
  -(2 ** 31),
  4.35,
  333_333_333.333_333_3,
]

/** Any UTF-16, including halves of surrogate pairs. */
const codeUnits = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 6 })
  .map((units) => String.fromCharCode(...units))

const text = fc.oneof(
  fc.string({ maxLength: 8 }),
  fc.string({ unit: character, maxLength: 6 }),
  codeUnits,
  fc.constantFrom('1', 'null', '{}', '\0', '\u2028', '\u007f', '"\\/'),
)

const number = fc.oneof(
  fc.constantFrom(...AWKWARD_NUMBERS),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
)

const name = fc.oneof(fc.constantFrom(...AWKWARD_NAMES), fc.string({ maxLength: 4 }), codeUnits)

/** Any JSON value as a parser returns it: `__proto__` is a member like any other. */
export const jsonValue: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(fc.constantFrom(null, true, false), number, text),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.array(fc.tuple(name, tie('value')), { maxLength: 5 }).map((members) => Object.fromEntries(members)),
  ),
})).value

/** Decisions on the way through a value, which are used over and over. */
export const choices = fc.array(fc.nat(255), { minLength: 1, maxLength: 24 })

/** Returns a number from 0 to `below`, exclusive. */
export type Choose = (below: number) => number

export function chooser(given: readonly number[]): Choose {
  let at = 0
  return (below) => (given[at++ % given.length] ?? 0) % below
}
