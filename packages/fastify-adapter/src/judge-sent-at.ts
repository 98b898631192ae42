import { parseItem } from 'structured-headers'
import type { Problem } from './problems.js'
import { rawHeader } from './raw-header.js'
import type { SentAtSettings } from './sent-at.js'

/** `Sun, 06 Nov 1994 08:49:37 GMT`: the one form of an HTTP-date that may be sent (RFC 9110, 5.6.7). */
const IMF_FIXDATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/**
 * Why a request is refused for the time at which its client says it first sent it; null where that time will do. `nowMs`
 * is this process's clock: nothing has asked the database yet, and the client's clock is further off than ours.
 */
export function judgeSentAt(
  rawHeaders: readonly string[],
  { header, maxAgeMs, maxSkewMs, required }: SentAtSettings,
  { hasKey, nowMs }: { readonly hasKey: boolean; readonly nowMs: number },
): Problem | null {
  const [value, ...others] = rawHeader(rawHeaders, header)
  if (value === undefined) {
    // Without a key, every request is a new one, whenever it was sent.
    if (!required || !hasKey) return null
    const detail = `Send the header ${header} with the time of the first attempt, and the same one with every retry.`
    return { code: 'sent_at_missing', detail }
  }
  if (others.length > 0)
    return { code: 'sent_at_invalid', detail: `The header ${header} was sent more than once.` }
  const sentAtMs = readTime(value)
  if (sentAtMs === null) {
    const detail = `The header ${header} has neither an HTTP date (Sun, 06 Nov 1994 08:49:37 GMT) nor a date of RFC 9651 (@784111777).`
    return { code: 'sent_at_invalid', detail }
  }
  const ageMs = nowMs - sentAtMs
  if (ageMs > maxAgeMs) {
    const detail = `The header ${header} says that this request was first sent more than ${maxAgeMs / 1_000} s ago. Nothing was done now: find out what became of it before you send it as a new one.`
    return { code: 'sent_at_too_old', detail }
  }
  if (ageMs < -maxSkewMs) {
    const detail = `The header ${header} is more than ${maxSkewMs / 1_000} s ahead of the clock here: set the clock of the client.`
    return { code: 'sent_at_in_future', detail }
  }
  return null
}

/** In milliseconds since 1970; null for what is not a moment. */
function readTime(value: string): number | null {
  if (!value.startsWith('@')) return readHttpDate(value)
  try {
    const [moment] = parseItem(value)
    // Fifteen digits are syntax, but more than a Date can hold.
    return moment instanceof Date && !Number.isNaN(moment.getTime()) ? moment.getTime() : null
  } catch {
    return null
  }
}

/** `Date.parse` accepts much else, and takes 31 February for 3 March: the same text has to come back. */
function readHttpDate(value: string): number | null {
  if (!IMF_FIXDATE.test(value)) return null
  const moment = new Date(value)
  return !Number.isNaN(moment.getTime()) && moment.toUTCString() === value ? moment.getTime() : null
}
