import type { FinishedLately } from '../storage/keys/find-finished-lately.js'

const MINUTE_MS = 60_000

/** How fast keys went through one point. */
interface PointRate {
  readonly reachedPerMinute: number
  /** From the point before; null if nobody has got there. */
  readonly medianMs: number | null
}

/** How fast keys of one version of a pipeline went through. */
export interface VersionRates {
  readonly finishedPerMinute: number
  readonly points: ReadonlyMap<string, PointRate>
}

/** Names one version of a pipeline. What follows the last `@` is the version. */
export const versionName = ({ pipeline, version }: Pick<FinishedLately, 'pipeline' | 'version'>): string =>
  `${pipeline}@${version}`

/**
 * Counts what finished keys went through since a moment, for each version of a pipeline. Pure. A phase that was skipped takes
 * no time, and says nothing.
 */
export function measureRates(
  finished: readonly FinishedLately[],
  sinceMs: number,
  nowMs: number,
): ReadonlyMap<string, VersionRates> {
  const minutes = Math.max(1, nowMs - sinceMs) / MINUTE_MS
  const versions = new Map<string, Gathered>()
  for (const key of finished) gather(versions, key, sinceMs)
  return new Map(
    [...versions].map(([name, { finishes, points }]) => [
      name,
      {
        finishedPerMinute: rounded(finishes / minutes),
        points: new Map(
          [...points].map(([point, { reached, tookMs }]) => [
            point,
            { reachedPerMinute: rounded(reached / minutes), medianMs: median(tookMs) },
          ]),
        ),
      },
    ]),
  )
}

interface Gathered {
  finishes: number
  readonly points: Map<string, { reached: number; readonly tookMs: number[] }>
}

function gather(versions: Map<string, Gathered>, key: FinishedLately, sinceMs: number): void {
  const { createdMs, trail } = key
  const last = trail.at(-1)
  // It is known only by when it expires, which somebody may have changed.
  if (last?.point !== 'finished' || last.atMs < sinceMs) return
  const name = versionName(key)
  const version = versions.get(name) ?? { finishes: 0, points: new Map() }
  versions.set(name, version)
  version.finishes++
  if (createdMs >= sinceMs) reach(version, 'started', null)
  let beforeMs = createdMs
  for (const { point, atMs, skipped } of trail) {
    if (atMs >= sinceMs && !skipped) reach(version, point, Math.max(0, atMs - beforeMs))
    beforeMs = atMs
  }
}

function reach({ points }: Gathered, point: string, tookMs: number | null): void {
  const known = points.get(point) ?? { reached: 0, tookMs: [] }
  points.set(point, known)
  known.reached++
  if (tookMs !== null) known.tookMs.push(tookMs)
}

function median(numbers: readonly number[]): number | null {
  if (numbers.length === 0) return null
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? null
}

/** To a tenth: what changes faster than that is noise. */
const rounded = (perMinute: number): number => Math.round(perMinute * 10) / 10
