import { randomBytes } from 'node:crypto'

/** Hexadecimal digits of the random part of one id. */
const DIGITS_PER_ID = 16
const IDS_PER_DRAW = 256

/** Random digits for many ids at once: drawing a few at a time costs more than the rest of making an id. */
let digits = ''
let used = 0

let lastMs = 0
let counter = 0
const MAX_COUNTER = 0xfff

/** The part that is the same for all ids of a millisecond. */
let prefix = ''

/**
 * Makes an id that grows with time (RFC 9562, version 7), so that an index on it is appended to, instead of being written
 * all over the place. Within a process, each is greater than the one before.
 */
export function uuidV7(): string {
  const now = Date.now()
  if (now > lastMs) begin(now)
  else if (++counter > MAX_COUNTER) begin(lastMs + 1)
  if (used >= digits.length) {
    digits = randomBytes((IDS_PER_DRAW * DIGITS_PER_ID) / 2).toString('hex')
    used = 0
  }
  const random = digits.slice(used, (used += DIGITS_PER_ID))
  // The two highest bits of this digit say which layout the id has.
  const variant = VARIANTS[Number.parseInt(random[0] ?? '0', 16) & 3]
  const nth = counter.toString(16).padStart(3, '0')
  return `${prefix}-7${nth}-${variant}${random.slice(1, 4)}-${random.slice(4)}`
}

const VARIANTS = '89ab'

function begin(ms: number): void {
  lastMs = ms
  counter = 0
  const time = ms.toString(16).padStart(12, '0')
  prefix = `${time.slice(0, 8)}-${time.slice(8)}`
}
