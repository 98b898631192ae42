const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const

/** `2 hours`, `40 seconds`, `less than a second`: one unit, for sentences that people read. */
export function durationWords(ms: number): string {
  const [unit, size] = UNITS.find((each) => ms >= each[1]) ?? [null, 1]
  if (unit === null) return 'less than a second'
  const amount = Math.round(ms / size)
  return `${amount} ${unit}${amount === 1 ? '' : 's'}`
}
