import { usageError } from '../cli-error.js'

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `30s`, `5m`, `2h`, `7d` or `1h30m`, in milliseconds. */
export function parseDuration(text: string): number {
  if (!/^(?:\d{1,9}(?:ms|s|m|h|d))+$/.test(text)) {
    throw usageError(`'${text}' is not a duration; it has to be like 30s, 5m, 2h, 7d or 1h30m.`)
  }
  return [...text.matchAll(/(\d+)(ms|s|m|h|d)/g)].reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * UNIT_MS[unit as keyof typeof UNIT_MS],
    0,
  )
}
