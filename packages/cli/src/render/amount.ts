const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const
const THOUSAND = 1_000

/** `840 B`, `3.1 kB`, `56 GB`: two digits, because an estimate has no more. */
export function bytesText(bytes: number): string {
  let value = bytes
  let unit = 0
  // 999.5 and more would be written as 1000.
  while (value >= THOUSAND - 0.5 && unit < BYTE_UNITS.length - 1) {
    value /= THOUSAND
    unit++
  }
  return `${twoDigits(value)} ${BYTE_UNITS[unit]}`
}

/** `0.61`, `6.5`, `65`, `6,500`. */
export function numberText(value: number): string {
  return twoDigits(value)
}

export function percentText(share: number): string {
  return share > 0 && share < 0.01 ? 'under 1 %' : `${Math.round(share * 100)} %`
}

function twoDigits(value: number): string {
  if (value >= 100) return Math.round(Number(value.toPrecision(2))).toLocaleString('en-US')
  if (value >= 10) return value.toFixed(0)
  // 0.996 would be written as 1.00.
  return value >= 0.995 ? value.toFixed(1) : value.toFixed(2)
}
