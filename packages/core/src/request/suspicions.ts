/** Why a key should not be stored as it is. */
export type Suspicion = 'too_short' | 'card_number' | 'email' | 'phone_number'

const SEPARATOR = String.raw`[\p{Zs}\p{Pd}.]`
/** Most keys have neither: one look tells. */
const HAS_CARD_DIGITS = new RegExp(String.raw`\d{13}|\d{4}${SEPARATOR}\d{3}`, 'u')
/** Groups of digits that no letter touches: what is next to a letter belongs to an id, such as a ULID or a hash. */
const GROUPS = new RegExp(String.raw`(?<![\p{L}\p{N}])\d+(?:${SEPARATOR}\d+)*(?![\p{L}\p{N}])`, 'gu')
const BETWEEN_GROUPS = new RegExp(SEPARATOR, 'u')

/** What `Math.random()` returns, which some clients put into their keys: one in a hundred or so would be taken for a card number. */
const FRACTION = /(?<![\p{L}\p{N}.])0\.\d+/gu

/** How card numbers are printed. Without this, the groups of a date and two counters could add up to a card number. */
const GROUPINGS: readonly (readonly number[])[] = [
  ...[13, 14, 15, 16, 17, 18, 19].map((length) => [length]),
  [4, 4, 4, 4],
  [4, 6, 5],
  [4, 6, 4],
  [4, 3, 3, 3],
  [4, 4, 4, 4, 3],
  [6, 13],
]

/**
 * Prefixes and lengths that networks hand out. One order number in ten has the right check digit; with these, one of 10
 * digits or a time stamp is never taken for a card number, and few others are.
 */
const NETWORKS: readonly (readonly [prefix: RegExp, lengths: readonly number[]])[] = [
  // Visa
  [/^4/, [13, 16, 19]],
  // Mastercard
  [/^(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/, [16]],
  // American Express
  [/^3[47]/, [15]],
  // Diners Club
  [/^(?:30[0-5]|3095|36|3[89])/, [14, 16]],
  // Discover
  [/^(?:6011|64[4-9]|65)/, [16, 19]],
  // JCB
  [/^35(?:2[89]|[3-8])/, [16, 19]],
  // UnionPay
  [/^(?:62|81)/, [16, 17, 18, 19]],
  // Maestro, Dankort
  [/^(?:50(?:18|19|20|38)|5893|6304|6759|676[1-3])/, [13, 14, 15, 16, 17, 18, 19]],
  // Mir
  [/^220[0-4]/, [16, 17, 18, 19]],
  // RuPay, Troy
  [/^(?:60|82|508|9792)/, [16]],
]

/** Whether a payment card's number is in the text: its digits, a network's prefix and length, and the right check digit. */
export function hasCardNumber(text: string): boolean {
  if (!HAS_CARD_DIGITS.test(text)) return false
  return [...text.replaceAll(FRACTION, ' ').matchAll(GROUPS)].some(([run]) =>
    isCardAmong(run.split(BETWEEN_GROUPS)),
  )
}

function isCardAmong(groups: readonly string[]): boolean {
  return groups.some((_, start) =>
    GROUPINGS.some(
      (lengths) =>
        lengths.every((length, index) => groups[start + index]?.length === length) &&
        isCardNumber(groups.slice(start, start + lengths.length).join('')),
    ),
  )
}

function isCardNumber(digits: string): boolean {
  return (
    NETWORKS.some(([prefix, lengths]) => lengths.includes(digits.length) && prefix.test(digits)) &&
    hasLuhnCheckDigit(digits)
  )
}

/** ISO/IEC 7812: from the right, every second digit counts twice, as the sum of its digits. */
function hasLuhnCheckDigit(digits: string): boolean {
  let sum = 0
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits[digits.length - 1 - index])
    const counted = index % 2 === 0 ? digit : digit * 2
    sum += counted > 9 ? counted - 9 : counted
  }
  return sum % 10 === 0
}

/** No label contains a dot, so there is one way to read a host, and a search takes linear time. */
const EMAIL = /[^\s@]@(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}/u

export function hasEmail(text: string): boolean {
  return text.includes('@') && EMAIL.test(text)
}

/**
 * A number with the sign of international ones, or grouped 3-3-4 as in North America. Digits alone may be anything. The `+`
 * of Base64 stands between letters.
 */
const PHONE_NUMBER =
  /(?<![\p{L}\p{N}])(?:\+[1-9](?:[ .()-]{0,2}\d){6,13}|(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4})(?![\p{L}\p{N}])/u

export function hasPhoneNumber(text: string): boolean {
  return PHONE_NUMBER.test(text)
}
