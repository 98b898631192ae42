/** In the reader's zone and in 24 hours, whatever their language: pages are in English, and times are compared with logs. */
const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })
const DAY_AND_YEAR = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })

/** `14:03:22` on the same day, `3 Nov, 14:03:22` before, with the year in another. */
export function formatMoment(at: Date, now: Date): string {
  const time = TIME.format(at)
  if (at.toDateString() === now.toDateString()) return time
  const day = at.getFullYear() === now.getFullYear() ? DAY.format(at) : DAY_AND_YEAR.format(at)
  return `${day}, ${time}`
}

/** `14:03:22.418`, for what lies close together. */
export function formatPrecise(at: Date, now: Date): string {
  return `${formatMoment(at, now)}.${String(at.getMilliseconds()).padStart(3, '0')}`
}

/** `2026-11-16 14:03:22.418 UTC`: as logs have it. */
export function formatUtc(at: Date): string {
  return Number.isNaN(at.getTime()) ? '' : `${at.toISOString().replace('T', ' ').replace('Z', '')} UTC`
}
