const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const ONE = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

/** `12,345`. */
export function formatCount(count: number): string {
  return WHOLE.format(count)
}

/** `12,345`, or `10,000+` where nobody counted further. */
export function formatBoundedCount({
  count,
  isAtLeast,
}: {
  readonly count: number
  readonly isAtLeast: boolean
}): string {
  return `${formatCount(count)}${isAtLeast ? '+' : ''}`
}

/** Where there is little room: `12.3K`. */
export function formatCompact(count: number): string {
  return count < 10_000 ? formatCount(count) : COMPACT.format(count)
}

/** Per minute: `0.4`, `38`, `1,204`. */
export function formatRate(perMinute: number): string {
  return perMinute < 10 ? ONE.format(perMinute) : WHOLE.format(perMinute)
}

/** `1 key`, `2 keys`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`
}

const BYTE_UNITS = ['bytes', 'kB', 'MB', 'GB'] as const

/** `214 bytes`, `1.2 kB`. */
export function formatBytes(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1_000 && unit < BYTE_UNITS.length - 1) {
    value /= 1_000
    unit++
  }
  if (unit === 0) return bytes === 1 ? '1 byte' : `${bytes} bytes`
  return `${ONE.format(value)} ${BYTE_UNITS[unit]}`
}
