import fc from 'fast-check'

const FIRST_SURROGATE = 0xd800
const LAST_SURROGATE = 0xdfff
const LAST_CODE_POINT = 0x10_ffff
const LAST_OF_ASCII = 0x7f

/**
 * Any character, with those of ASCII more often, and no halves of pairs. We do not use fast-check's own unit `binary`,
 * because its table of all code points takes seconds to set up.
 */
export const character: fc.Arbitrary<string> = fc
  .oneof(fc.integer({ min: 0, max: LAST_OF_ASCII }), fc.integer({ min: 0, max: LAST_CODE_POINT }))
  .filter((code) => code < FIRST_SURROGATE || code > LAST_SURROGATE)
  .map((code) => String.fromCodePoint(code))
