import fc from 'fast-check'

/** What a key may be made of. */
const printable = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code))

/** Any key that a client can send. Many have what a header, or a stored key, could take for its own syntax. */
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

/** Whether the key can go without quotes. */
export function canBeBare(key: string): boolean {
  return !/[",]/.test(key) && !key.startsWith(' ') && !key.endsWith(' ')
}
