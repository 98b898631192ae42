import type { Line, Section } from '../../bench/src/report/section.js'

/** A line that was measured once, or in several rounds. */
export function line(contender: string, perSecond: readonly number[], more: Partial<Line> = {}): Line {
  const middle = perSecond[Math.floor(perSecond.length / 2)] ?? Number.NaN
  return {
    contender,
    requestsPerSecond: { median: middle, min: Math.min(...perSecond), max: Math.max(...perSecond) },
    p50Ms: null,
    p99Ms: null,
    ratio: null,
    errors: 0,
    firstError: null,
    cpuMs: null,
    walBytes: null,
    commits: null,
    statements: null,
    roundTrips: null,
    perRound: { requestsPerSecond: perSecond, p50Ms: [], p99Ms: [], cpuMs: [] },
    ...more,
  }
}

export function section(name: string, lines: readonly Line[], more: Partial<Section> = {}): Section {
  return {
    name,
    title: name,
    unit: 'requests/s',
    compared: 'requestsPerSecond',
    baseline: null,
    lines,
    notes: [],
    ...more,
  }
}
