import type { Observation } from './shared-gauges.js'

/** What a scope can send too often. */
export type Duplicate = 'replayed' | 'in_flight' | 'mismatch'

const DUPLICATES: readonly Duplicate[] = ['replayed', 'in_flight', 'mismatch']

/** More scopes than this are not told apart within an interval: 10 000 take about two megabytes. */
const MAX_SCOPES = 10_000

/** What the scopes that are not reported by themselves are reported as. A hash has only hexadecimal digits. */
const OTHER = 'other'

type Counts = Record<Duplicate, number>

interface Interval {
  readonly index: number
  readonly scopes: Map<string, Counts>
}

/**
 * Counts duplicates by scope, interval by interval. Of each interval, the scopes with the most are reported by themselves and the
 * others as one, so that a metric has a bounded number of series however many tenants there are.
 */
export class TopScopes {
  readonly #top: number
  readonly #everyMs: number
  readonly #now: () => number
  #current: Interval
  #last: Interval

  constructor(top: number, everyMs: number, now: () => number = Date.now) {
    this.#top = top
    this.#everyMs = everyMs
    this.#now = now
    this.#current = this.#interval(0)
    this.#last = this.#interval(-1)
  }

  add(scopeHash: string, duplicate: Duplicate): void {
    this.#turn()
    const { scopes } = this.#current
    const name = scopes.has(scopeHash) || scopes.size < MAX_SCOPES ? scopeHash : OTHER
    const counts = scopes.get(name) ?? { replayed: 0, in_flight: 0, mismatch: 0 }
    counts[duplicate]++
    scopes.set(name, counts)
  }

  /** What came in the last full interval, however often somebody asks. */
  report(): { readonly scope: string; readonly duplicate: Duplicate; readonly count: number }[] {
    this.#turn()
    const ranked = [...this.#last.scopes]
      .filter(([scope]) => scope !== OTHER)
      .toSorted(([, one], [, two]) => sum(two) - sum(one))
    const rest = [...ranked.slice(this.#top).map(([, counts]) => counts), this.#last.scopes.get(OTHER)]
    const other = DUPLICATES.map((duplicate) => ({
      scope: OTHER,
      duplicate,
      count: rest.reduce((total, counts) => total + (counts?.[duplicate] ?? 0), 0),
    }))
    const top = ranked
      .slice(0, this.#top)
      .flatMap(([scope, counts]) =>
        DUPLICATES.map((duplicate) => ({ scope, duplicate, count: counts[duplicate] })),
      )
    return [...top, ...other]
  }

  /** The same for a gauge. */
  observations(): Observation[] {
    return this.report().map(({ scope, duplicate, count }) => ({
      name: 'pawl.scope.duplicates',
      value: count,
      attributes: { 'pawl.scope.hash': scope, 'pawl.duplicate': duplicate },
    }))
  }

  #turn(): void {
    const index = Math.floor(this.#now() / this.#everyMs)
    if (index === this.#current.index) return
    this.#last = index === this.#current.index + 1 ? this.#current : this.#interval(-1)
    this.#current = this.#interval(0)
  }

  #interval(offset: number): Interval {
    return { index: Math.floor(this.#now() / this.#everyMs) + offset, scopes: new Map() }
  }
}

const sum = ({ replayed, in_flight: inFlight, mismatch }: Counts): number => replayed + inFlight + mismatch
