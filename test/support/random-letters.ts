import { randomBytes } from 'node:crypto'

/** For names in the database. It has no digits: many in a row could be the number of a card, which is redacted in messages. */
export function randomLetters(): string {
  return Array.from(randomBytes(16), (byte) => String.fromCharCode('a'.charCodeAt(0) + (byte % 26))).join('')
}
