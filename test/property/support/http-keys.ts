import fc from 'fast-check'

/** The characters of a key. */
const printable = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code))

/** Any key that a client can send. Many contain what could be mistaken for the syntax of a header, or of a stored key. */
export const sendableKey = fc.oneof(
  fc.string({ unit: printable, minLength: 1, maxLength: 20 }),
  fc.string({
    unit: fc.constantFrom('a', 'b', ' ', '"', '\\', ',', ';', '=', '/', ':', '>', '-', '%', '*'),
    minLength: 1,
    maxLength: 8,
  }),
  fc.string({ unit: printable, minLength: 200, maxLength: 255 }),
  fc.uuid(),
)

/** As RFC 9651 writes a string. */
export function quotedKey(key: string): string {
  return `"${key.replaceAll(/["\\]/g, String.raw`\$&`)}"`
}

/** Whether the key can be sent without quotes. */
export function canBeBare(key: string): boolean {
  return !/[",]/.test(key) && !key.startsWith(' ') && !key.endsWith(' ')
}
