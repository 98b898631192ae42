import type { RequestTraffic } from '../measure/count-traffic.js'
import type { Sample } from '../measure/sample.js'
import type { Rounds } from '../measure/rounds.js'
import { joined, median, percentile, ratiosOf, type Spread, spreadOf } from '../measure/statistics.js'

/** What a ratio compares: more requests per second are better, less time is better. */
export type Compared = 'requestsPerSecond' | 'p50Ms' | 'p99Ms'

/** One contender in one scenario. What was not measured there is null. */
export interface Line {
  readonly contender: string
  readonly requestsPerSecond: Spread
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  /** Against the baseline, of what the section compares. */
  readonly ratio: Spread | null
  readonly errors: number
  readonly firstError: string | null
  readonly cpuMs: number | null
  /** CPU of PostgreSQL, per request. */
  readonly serverCpuMs: number | null
  readonly walBytes: number | null
  readonly commits: number | null
  readonly statements: number | null
  readonly roundTrips: number | null
  /** What the medians are medians of, in the order of the rounds: lines of one section can be compared round by round. */
  readonly perRound: Readonly<Record<Compared | 'cpuMs', readonly number[]>>
}

/** A table of numbers. Null where there is nothing to say. */
export interface Figures {
  readonly columns: readonly string[]
  readonly rows: readonly { readonly label: string; readonly values: readonly (number | null)[] }[]
}

/** A scenario, or one size of it. */
export interface Section {
  /** Such as `fresh C=32`. */
  readonly name: string
  readonly title: string
  /** What `requestsPerSecond` counts. */
  readonly unit: 'requests/s' | 'keys/s'
  readonly compared: Compared
  readonly baseline: string | null
  readonly lines: readonly Line[]
  /** What has columns of its own, instead of lines. */
  readonly figures?: Figures
  readonly notes: readonly string[]
}

/** A line of which only the rate was measured. */
export function rateLine(contender: string, perSecond: readonly number[]): Line {
  return {
    contender,
    requestsPerSecond: spreadOf(perSecond),
    p50Ms: null,
    p99Ms: null,
    ratio: null,
    errors: 0,
    firstError: null,
    cpuMs: null,
    serverCpuMs: null,
    walBytes: null,
    commits: null,
    statements: null,
    roundTrips: null,
    perRound: { requestsPerSecond: perSecond, p50Ms: [], p99Ms: [], cpuMs: [] },
  }
}

/** The lines of a section, from all rounds. `traffic` is what a pass of its own has counted, by label. */
export function linesOf(
  rounds: Rounds<{ readonly label: string }, Sample>,
  compared: Compared,
  baseline: string | null,
  traffic: ReadonlyMap<string, RequestTraffic | null> = new Map(),
): Line[] {
  const against = [...rounds].find(([{ label }]) => label === baseline)?.[1] ?? null
  return [...rounds].map(([{ label }, samples]) => {
    const all = joined(samples.map(({ latenciesMs }) => latenciesMs))
    const perRound = {
      requestsPerSecond: samples.map(({ requestsPerSecond }) => requestsPerSecond),
      p50Ms: samples.map(({ p50Ms }) => p50Ms),
      p99Ms: samples.map(({ p99Ms }) => p99Ms),
      cpuMs: samples.map(({ cpuMs }) => cpuMs),
    }
    const counted = traffic.get(label) ?? null
    return {
      contender: label,
      requestsPerSecond: spreadOf(perRound.requestsPerSecond),
      p50Ms: percentile(all, 0.5),
      p99Ms: percentile(all, 0.99),
      ratio:
        against === null
          ? null
          : ratiosOf(
              perRound[compared],
              against.map((sample) => sample[compared]),
            ),
      errors: samples.reduce((sum, { errors }) => sum + errors, 0),
      firstError: samples.find(({ firstError }) => firstError !== null)?.firstError ?? null,
      cpuMs: median(perRound.cpuMs),
      serverCpuMs: medianOfKnown(samples.map(({ serverCpuMs }) => serverCpuMs)),
      walBytes: median(samples.map(({ walBytes }) => walBytes)),
      commits: median(samples.map(({ commits }) => commits)),
      statements: counted?.statements ?? null,
      roundTrips: counted?.roundTrips ?? null,
      perRound,
    }
  })
}

function medianOfKnown(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : median(known)
}

/** A section with columns of its own. */
export function figuresSection(
  name: string,
  title: string,
  figures: Figures,
  notes: readonly string[],
): Section {
  return {
    name,
    title,
    unit: 'requests/s',
    compared: 'requestsPerSecond',
    baseline: null,
    lines: [],
    figures,
    notes,
  }
}
