const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

const UNITS = [
  ['d', DAY_MS],
  ['h', HOUR_MS],
  ['m', MINUTE_MS],
  ['s', SECOND_MS],
] as const

/** As `pawl status` writes it: `41s`, `3m 13s`, `1d 1h`. What is negative, from a clock that was set, is none. */
export function formatAge(ms: number): string {
  const whole = Math.max(0, Math.floor(ms))
  const first = UNITS.findIndex(([, size]) => whole >= size)
  if (first === -1) return '0s'
  const [unit, size] = UNITS[first] ?? UNITS[3]
  const second = UNITS[first + 1]
  const rest = second === undefined ? 0 : Math.floor((whole % size) / second[1])
  const head = `${Math.floor(whole / size)}${unit}`
  return second === undefined || rest === 0 ? head : `${head} ${rest}${second[0]}`
}

/** For what is measured: `0.4 ms`, `38 ms`, `1.24 s`, then as ages are written. */
export function formatDuration(ms: number): string {
  if (ms < 0) return '0 ms'
  if (ms < 10) return `${trimmed(ms, 1)} ms`
  // Rounded first, or 999.6 would become '1000 ms'.
  if (Math.round(ms) < SECOND_MS) return `${Math.round(ms)} ms`
  if (ms < 10 * SECOND_MS) return `${trimmed(ms / SECOND_MS, 2)} s`
  return ms < MINUTE_MS ? `${trimmed(ms / SECOND_MS, 1)} s` : formatAge(ms)
}

/** In words, for screen readers and titles: `3 minutes 13 seconds`. */
export function spellAge(ms: number): string {
  const words: Record<string, string> = { d: 'day', h: 'hour', m: 'minute', s: 'second' }
  return formatAge(ms).replaceAll(/(\d+)([dhms])/g, (_all, count: string, unit: string) => {
    return `${count} ${words[unit] ?? unit}${count === '1' ? '' : 's'}`
  })
}

function trimmed(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)))
}
