import type { Spread } from '../measure/statistics.js'

/** Three significant digits: the rest is noise. */
export function short(value: number | null): string {
  if (value === null || Number.isNaN(value)) return '–'
  if (value >= 1_000) return Math.round(value).toLocaleString('en-US')
  if (value >= 100) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** As `761 (740..790)`. */
export function withSpread(spread: Spread | null): string {
  if (spread === null) return '–'
  return `${short(spread.median)} (${short(spread.min)}..${short(spread.max)})`
}
