import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readKey, writeKey } from '../../packages/fastify-adapter/src/read-key.js'
import { readPrefer } from '../../packages/fastify-adapter/src/read-prefer.js'
import { keyOfRoute } from '../../packages/fastify-adapter/src/stored-key.js'
import { assertProperty } from './support/assert-property.js'
import { canBeBare, quotedKey, sendableKey } from './support/http-keys.js'
import { knownPreference, type Preference, unknownPreference } from './support/preferences.js'
import { identityOf, lengthened, pathOf, renamed, type Route, route } from './support/routes.js'
import { character as anyCharacter } from './support/text.js'

const HEADER = 'idempotency-key'

/** The longest key, whether sent or stored. */
const LONGEST = 255

const read = (value: string) => readKey([HEADER, value], HEADER)
const given = (key: string) => ({ type: 'given', key })
const refused = (code: string) => ({
  type: 'unusable',
  problem: expect.objectContaining({ code }) as unknown,
})

/** Bytes of a header as Node reads them, one character each. */
const latin1 = fc
  .array(fc.integer({ min: 0, max: 0xff }), { maxLength: 12 })
  .map((bytes) => String.fromCharCode(...bytes))

const blanks = fc.string({ unit: fc.constantFrom(' ', '\t'), maxLength: 3 })

const headerValue = fc.oneof(
  latin1,
  sendableKey,
  sendableKey.map(quotedKey),
  fc.tuple(blanks, sendableKey.map(quotedKey), blanks).map((parts) => parts.join('')),
  fc
    .tuple(sendableKey.map(quotedKey), fc.constantFrom(';a', ';a=1', '; a="x"', ';', ',', 'x', '\u00a0'))
    .map((parts) => parts.join('')),
  fc.string({ unit: fc.constantFrom('"', '\\', 'a', ',', ';', ' ', '\t', '\u00e9', '\u00a0'), maxLength: 8 }),
  fc.integer({ min: LONGEST - 2, max: LONGEST + 2 }).map((length) => 'k'.repeat(length)),
  fc.integer({ min: LONGEST - 2, max: LONGEST + 2 }).map((length) => `"${'k'.repeat(length)}"`),
)

const ownName = fc.constantFrom('idempotency-key', 'Idempotency-Key', 'IDEMPOTENCY-KEY')
const otherName = fc.constantFrom(
  'prefer',
  'x-idempotency-key',
  'idempotency-key ',
  'idempotency_key',
  '__proto__',
)

const headers = fc.array(
  fc.oneof(fc.tuple(ownName, headerValue), fc.tuple(otherName, headerValue), fc.tuple(latin1, latin1)),
  { maxLength: 4 },
)

test('any headers yield a key that can be written and read again, or a problem, and never an exception', () =>
  assertProperty(
    fc.property(headers, (list) => {
      const own = list.filter(([name]) => name.toLowerCase() === HEADER)
      const result = readKey(list.flat(), HEADER)
      if (own.length === 0) expect(result).toEqual({ type: 'absent' })
      if (own.length > 1) expect(result).toEqual(refused('idempotency_key_repeated'))
      if (own.length === 1) expect(result.type).not.toBe('absent')
      if (result.type !== 'given') return
      expect(result.key).toMatch(/^[\x20-\x7e]{1,255}$/)
      const header = writeKey(result.key)
      expect(header).toMatch(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/)
      expect(read(header)).toEqual(result)
    }),
  ))

/** A second reader, written by hand, which does not know parameters. */
function keyIn(value: string): string | null {
  const text = value.replace(/^[ \t]+/, '').replace(/[ \t]+$/, '')
  if (!text.startsWith('"')) return /^[^",]+$/.test(text) ? usable(text) : null
  let key = ''
  for (let at = 1; at < text.length; at++) {
    const character = text.charAt(at)
    if (character === '"') return at === text.length - 1 ? usable(key) : null
    const escaped = character === '\\' ? text.charAt(++at) : null
    if (escaped !== null && escaped !== '"' && escaped !== '\\') return null
    key += escaped ?? character
  }
  return null
}

function usable(key: string): string | null {
  return /^[\x20-\x7e]{1,255}$/.test(key) ? key : null
}

test('a header has the key that a second reader finds in it, or no key', () =>
  assertProperty(
    fc.property(headerValue, (value) => {
      fc.pre(!value.includes('";'))
      const result = read(value)
      expect(result.type === 'given' ? result.key : null).toBe(keyIn(value))
    }),
  ))

test('every key can be sent, and is the same key with quotes, without them, and with blanks around it', () =>
  assertProperty(
    fc.property(sendableKey, blanks, blanks, (key, before, after) => {
      const forms = [quotedKey(key), writeKey(key), ...(canBeBare(key) ? [key] : [])]
      for (const form of forms) expect(read(`${before}${form}${after}`)).toEqual(given(key))
    }),
  ))

test('two keys are never read as one, whether they come in two headers or were joined on the way', () =>
  assertProperty(
    fc.property(sendableKey, sendableKey, ownName, (one, other, name) => {
      const repeated = refused('idempotency_key_repeated')
      expect(readKey([HEADER, writeKey(one), name, writeKey(other)], HEADER)).toEqual(repeated)
      for (const first of [quotedKey(one), writeKey(one)]) {
        for (const second of [quotedKey(other), writeKey(other)])
          for (const comma of [',', ', ', ' ,']) expect(read(`${first}${comma}${second}`)).toEqual(repeated)
      }
    }),
  ))

interface Sent {
  readonly to: Route
  readonly key: string
}

const sent: fc.Arbitrary<Sent> = fc.record({ to: route, key: sendableKey })
const stored = ({ to, key }: Sent) => keyOfRoute(to.method, pathOf(to), to.constraints, key)
const isSame = (one: Sent, other: Sent) =>
  identityOf(one.to) === identityOf(other.to) && one.key === other.key

test('a stored key fits its column, however long the route and the key are', () =>
  assertProperty(
    fc.property(sent, (of) => {
      expect(stored(of).length).toBeLessThanOrEqual(LONGEST)
      expect(stored(of)).toBe(stored(structuredClone(of)))
    }),
  ))

test('a stored key does not depend on what the parameters of its route are called', () =>
  assertProperty(
    fc.property(sent, ({ to, key }) => {
      expect(stored({ to: renamed(to), key })).toBe(stored({ to, key }))
    }),
  ))

test('two stored keys are equal exactly when they are of the same route and the same key', () =>
  assertProperty(
    fc.property(sent, sent, (one, other) => {
      const { to, key } = one
      const routes = [
        lengthened(to),
        { ...to, method: other.to.method },
        { ...to, segments: other.to.segments },
        { ...to, constraints: other.to.constraints },
      ]
      const changed = [{ to, key: other.key }, ...routes.map((changedRoute) => ({ to: changedRoute, key }))]
      for (const second of [other, ...changed])
        expect(stored(one) === stored(second)).toBe(isSame(one, second))
    }),
  ))

const words = fc.array(fc.constantFrom('a', 'b', 'sha256', 'POST', '/a', 'x'.repeat(120)), {
  minLength: 3,
  maxLength: 5,
})

test('no key can be mistaken for the end of another route', () =>
  assertProperty(
    fc.property(
      words,
      fc.constantFrom('', ' ', ' > ', ' -> ', ' → ', '→', '/', ' ('),
      fc.nat(),
      fc.nat(),
      (list, glue, one, other) => {
        // The same text is cut into a route and a key in two ways. No client can send an arrow.
        const cut = (at: number): Sent => {
          const end = 1 + (at % (list.length - 1))
          const segments = [{ type: 'fixed' as const, text: list.slice(0, end).join(glue) }]
          return { to: { method: 'POST', segments, constraints: null }, key: list.slice(end).join(glue) }
        }
        const [first, second] = [cut(one), cut(other)]
        fc.pre(usable(first.key) !== null && usable(second.key) !== null)
        expect(stored(first) === stored(second)).toBe(isSame(first, second))
      },
    ),
  ))

const anyText = fc.oneof(
  fc.string({
    unit: fc.constantFrom('"', '\\', ',', ';', '=', ' ', '\t', 'wait', '1', 'respond-async'),
    maxLength: 12,
  }),
  fc.string({ unit: anyCharacter }),
)

const anyHeader = fc.oneof(anyText, fc.array(anyText, { maxLength: 3 }), fc.constant(undefined))

test('any Prefer header is read as a preference or as none, and nothing is thrown', () =>
  assertProperty(
    fc.property(anyHeader, (header) => {
      const { respondAsync, waitMs } = readPrefer(header)
      expect(typeof respondAsync).toBe('boolean')
      expect(waitMs).toBeGreaterThanOrEqual(0)
    }),
  ))

const textOf = (list: readonly Preference[]) => list.map(({ text }) => text)

/** Of two preferences with one name, the first counts. */
function meaningOf(list: readonly Preference[]) {
  const respondAsync = list.find(({ means }) => means.respondAsync !== undefined)?.means.respondAsync
  const waitMs = list.find(({ means }) => means.waitMs !== undefined)?.means.waitMs
  return { respondAsync: respondAsync ?? false, waitMs: waitMs ?? 0 }
}

const mixed = fc.array(fc.oneof(knownPreference, unknownPreference), { maxLength: 6 })

test('unknown preferences change nothing, whatever they contain', () =>
  assertProperty(
    fc.property(mixed, fc.constantFrom(',', ', ', ' ,\t', ',,'), (list, comma) => {
      expect(readPrefer(textOf(list).join(comma))).toEqual(meaningOf(list))
      expect(readPrefer(textOf(list))).toEqual(meaningOf(list))
    }),
  ))

test('only unknown preferences count as none', () =>
  assertProperty(
    fc.property(fc.array(unknownPreference, { maxLength: 4 }), (list) => {
      expect(readPrefer(textOf(list).join(', '))).toEqual({ respondAsync: false, waitMs: 0 })
    }),
  ))
