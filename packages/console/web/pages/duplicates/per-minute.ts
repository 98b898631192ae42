import type { AsJson, DuplicatesAnswer } from '../../../src/api.js'

type Answer = AsJson<DuplicatesAnswer>

/** What was counted in one minute, or in several that are drawn as one. */
export interface Counts {
  readonly replayed: number
  readonly inFlight: number
  readonly mismatched: number
}

/** As many bars as can be told apart, also on a phone. */
const MAX_BARS = 72

const MINUTE_MS = 60_000
const NONE: Counts = { replayed: 0, inFlight: 0, mismatched: 0 }

/** All scopes together, minute by minute, those without any as well; of a long time, several minutes at once. */
export function minutesOf({ from, to, scopes }: Answer): readonly Counts[] {
  const begin = Date.parse(from)
  const length = Math.max(1, Math.round((Date.parse(to) - begin) / MINUTE_MS))
  const perBar = Math.ceil(length / MAX_BARS)
  const bars: Counts[] = Array.from({ length: Math.ceil(length / perBar) }, () => NONE)
  for (const { minutes } of scopes) {
    for (const { at, ...counts } of minutes) {
      const index = Math.floor((Date.parse(at) - begin) / MINUTE_MS / perBar)
      const before = bars[index]
      if (before !== undefined) bars[index] = added(before, counts)
    }
  }
  return bars
}

export function totalOf(scopes: Answer['scopes']): Counts & { readonly total: number } {
  const sums = scopes.reduce<Counts>((sum, scope) => added(sum, scope), NONE)
  return { ...sums, total: sumOf(sums) }
}

export function sumOf({ replayed, inFlight, mismatched }: Counts): number {
  return replayed + inFlight + mismatched
}

function added(a: Counts, b: Counts): Counts {
  return {
    replayed: a.replayed + b.replayed,
    inFlight: a.inFlight + b.inFlight,
    mismatched: a.mismatched + b.mismatched,
  }
}
