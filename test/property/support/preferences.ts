import fc from 'fast-check'

/** A preference as a client writes it, and what it means here. */
export interface Preference {
  readonly text: string
  readonly means: { readonly respondAsync?: boolean; readonly waitMs?: number }
}

const token = fc.string({
  unit: fc.constantFrom('a', 'b', 'Z', '0', '9', '-', '_', '.', '!', '*', '~', '^'),
  minLength: 1,
  maxLength: 6,
})

/** With commas, semicolons and quotes in it, and with preferences that are none. */
const quoted = fc
  .array(
    fc.constantFrom('a', ' ', ',', ';', '=', '"', '\\', 'respond-async', ', respond-async, ', 'wait=9'),
    {
      maxLength: 5,
    },
  )
  .map((parts) => `"${parts.join('').replaceAll(/["\\]/g, String.raw`\$&`)}"`)

const value = fc.oneof(token, quoted)
const parameters = fc
  .array(
    fc
      .tuple(token, fc.option(value, { nil: null }))
      .map(([name, of]) => (of === null ? name : `${name}=${of}`)),
    { maxLength: 2 },
  )
  .map((list) => list.map((one) => `; ${one}`).join(''))

/** Preferences that are unknown here. Some are names that every JavaScript object has as members. */
export const unknownPreference: fc.Arbitrary<Preference> = fc
  .tuple(
    fc.oneof(
      token,
      fc.constantFrom('return', 'handling', 'respond-asynchronously', 'waiting', '__proto__', 'constructor'),
    ),
    fc.option(value, { nil: null }),
    parameters,
  )
  .map(([name, of, more]) => ({ text: `${of === null ? name : `${name}=${of}`}${more}`, means: {} }))

const seconds = fc.oneof(fc.nat(120), fc.maxSafeNat())

/** Preferences that are heeded, in all their spellings. */
export const knownPreference: fc.Arbitrary<Preference> = fc.oneof(
  fc
    .tuple(fc.constantFrom('respond-async', 'Respond-Async', 'RESPOND-ASYNC=""'), parameters)
    .map(([name, more]) => ({
      text: `${name}${more}`,
      means: { respondAsync: true },
    })),
  // It has no value. With one, it would be another preference of that name.
  token.map((of) => ({ text: `respond-async=${of}`, means: { respondAsync: false } })),
  fc
    .tuple(fc.constantFrom('wait=', 'Wait = '), seconds, fc.boolean(), parameters)
    .map(([name, of, quotes, more]) => ({
      text: `${name}${quotes ? `"${of}"` : of}${more}`,
      means: { waitMs: of * 1_000 },
    })),
  fc
    .constantFrom('wait', 'wait=', 'wait=soon', 'wait=-1', 'wait=1.5', 'wait=0x10', 'wait=1e3')
    .map((text) => ({
      text,
      means: { waitMs: 0 },
    })),
)
