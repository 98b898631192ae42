import { FIRST_EPOCH_S, LAST_EPOCH_S, RUN_TIME_SLACK_MS } from '../limits.js'
import type { Scalar } from './walk-together.js'

const ISO = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?$/
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** Returns whether a value looks like a time: text as JSON, PostgreSQL and HTTP write it, or seconds or ms since 1970. */
export function isTime(value: Scalar): boolean {
  return timeMs(value) !== null
}

/** Returns whether it is a time of this run itself, and not one that came from the input. */
export function isTimeOfRun(value: Scalar, runMs: number): boolean {
  const ms = timeMs(value)
  return ms !== null && Math.abs(ms - runMs) <= RUN_TIME_SLACK_MS
}

function timeMs(value: Scalar): number | null {
  if (typeof value === 'number') {
    if (value >= FIRST_EPOCH_S && value <= LAST_EPOCH_S) return value * 1_000
    return value >= FIRST_EPOCH_S * 1_000 && value <= LAST_EPOCH_S * 1_000 ? value : null
  }
  if (typeof value !== 'string' || !(ISO.test(value) || HTTP_DATE.test(value))) return null
  const ms = Date.parse(HTTP_DATE.test(value) ? value : asJavaScript(value))
  return Number.isNaN(ms) ? null : ms
}

/** PostgreSQL writes a space instead of the T, and may leave out the minutes of a time zone. */
function asJavaScript(iso: string): string {
  const [day = '', ...time] = iso.split(/[T ]/)
  return time.length === 0
    ? day
    : `${day}T${time
        .join('')
        .replace(',', '.')
        .replace(/[+-]\d{2}$/, '$&:00')}`
}
