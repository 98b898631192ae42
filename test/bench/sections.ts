import { type Line, rateLine, type Section } from '../../bench/src/report/section.js'

/** A line that was measured once, or in several rounds. */
export function line(contender: string, perSecond: readonly number[], more: Partial<Line> = {}): Line {
  return { ...rateLine(contender, perSecond), ...more }
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
