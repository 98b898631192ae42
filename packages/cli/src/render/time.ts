const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** `3d 4h`, `1m 12s`, `2.4s`, `180ms`: two units at most, because nobody reads more. */
export function durationText(ms: number): string {
  const whole = Math.max(0, Math.round(ms))
  if (whole < 1_000) return `${whole}ms`
  if (whole < 10_000) return `${(Math.floor(whole / 100) / 10).toFixed(1)}s`
  const first = UNITS.findIndex(([, size]) => whole >= size)
  const parts: string[] = []
  let rest = whole
  for (const [unit, size] of UNITS.slice(first, first + 2)) {
    const amount = Math.floor(rest / size)
    rest -= amount * size
    if (amount > 0) parts.push(`${amount}${unit}`)
  }
  return parts.join(' ')
}

/** `2026-03-31 12:00:00Z`: UTC, as logs are. */
export function momentText(moment: Date): string {
  return `${moment.toISOString().slice(0, 19).replace('T', ' ')}Z`
}

/** The same to the millisecond, for moments that lie close together; that it is UTC is stated elsewhere. */
export function preciseText(moment: Date): string {
  return moment.toISOString().slice(0, 23).replace('T', ' ')
}
