/** The median of several measurements, and how far apart they are. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** The value below which this share of the values lies (nearest rank). */
export function percentile(values: readonly number[] | Float64Array, share: number): number {
  if (values.length === 0) return Number.NaN
  const sorted = Float64Array.from(values).toSorted()
  const rank = Math.min(sorted.length, Math.max(1, Math.ceil(share * sorted.length)))
  return sorted[rank - 1] ?? Number.NaN
}

/** For an even number of values, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  const upper = sorted[Math.floor(middle)] ?? Number.NaN
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? Number.NaN) + upper) / 2 : upper
}

export function spreadOf(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) }
}

/** One ratio per round: both were measured within seconds of each other, so what disturbs one disturbs both. */
export function ratiosOf(values: readonly number[], baseline: readonly number[]): Spread {
  return spreadOf(values.map((value, round) => value / (baseline[round] ?? Number.NaN)))
}

/** All values of several rounds as one list. */
export function joined(rounds: readonly Float64Array[]): Float64Array {
  const all = new Float64Array(rounds.reduce((sum, round) => sum + round.length, 0))
  let at = 0
  for (const round of rounds) {
    all.set(round, at)
    at += round.length
  }
  return all
}
