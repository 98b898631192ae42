import { MAX_TYPO_DISTANCE } from './limits.js'

/** The known word that a wrong one was probably meant to be; null if none comes close. */
export function nearest(word: string, known: readonly string[]): string | null {
  const ranked = known
    .map((candidate) => ({ candidate, distance: distanceOf(word, candidate) }))
    .toSorted((a, b) => a.distance - b.distance)
  const [best] = ranked
  // A short word is a short distance from everything.
  if (best === undefined || best.distance > Math.min(MAX_TYPO_DISTANCE, best.candidate.length / 2))
    return null
  return best.candidate
}

/** The Levenshtein distance: how many letters to add, drop or change. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
