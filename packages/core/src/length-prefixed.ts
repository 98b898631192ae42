/** Each part is prefixed with its length, so that no two lists of parts yield the same text. */
export const lengthPrefixed = (parts: readonly string[]): string =>
  parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join('')
